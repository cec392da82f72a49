# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that try kinds of Linux: one row is a user, where its state is, and what must come of a sandbox there.
sandbox=${sandbox:-/src/build/tools/sandbox}
failed=0

said() { # OK, WHAT, OUTPUT
    if [ "$1" = 0 ]; then
        printf 'ok - %s\n' "$2"
    else
        printf 'not ok - %s: %s\n' "$2" "$3"
        failed=1
    fi
}

as() { # USER COMMAND…
    local user=$1
    shift
    runuser -u "$user" -- "$@"
}

# WANTED is "works", or the error's code, whose hint must hold HINT.
row() { # KIND USER PLACE WANTED [HINT]
    local kind=$1 user=$2 place=$3 wanted=$4 hint=${5:-} out status=0 right=1
    out=$(as "$user" "$sandbox" --root "$place/state-$user" --json run --timeout 60s -- sh -c 'echo ran as $(id -u)' 2>&1) || status=$?
    if [ "$wanted" = works ]; then
        [ $status = 0 ] && [ "$out" = "ran as 0" ] && right=0
    else
        [ $status = 125 ] && [[ $out == *"\"code\":\"$wanted\""* ]] && [[ ${out#*\"hint\":\"} == [a-z]* ]] && [[ ${out#*\"hint\":\"} == *"$hint"* ]] && right=0
    fi
    said $right "$(printf '%-12s %-8s %-20s %s' "$kind" "$user" "$place" "$wanted")" "$out"
}

limits() { # KIND USER PLACE works|EUNSUPPORTED
    local kind=$1 user=$2 place=$3 wanted=$4 out status=0 right=1
    out=$(as "$user" "$sandbox" --root "$place/limits-$user" --json run --memory 64M --timeout 60s -- true 2>&1) || status=$?
    case "$wanted $status $out" in
    "works 0 "* | EUNSUPPORTED\ 125\ *'"code":"EUNSUPPORTED"'*'"hint":"'[a-z]*) right=0 ;;
    esac
    said $right "$(printf '%-12s %-8s %-20s %s' "$kind" "$user" 'a memory limit' "$wanted")" "$out"
}
