#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build-time tool: embed.py STRIP OUT_S OUT_C PROGRAM... strips each program and writes an assembler file that includes its bytes,
and the table sb_programs[] (programs.h). The digest in the assembler file makes a changed program a changed source."""
import hashlib
import os
import subprocess
import sys

strip, out_s, out_c, *programs = sys.argv[1:]
asm, table, decl = [], [], []
for i, path in enumerate(programs):
    name = os.path.basename(path)
    stripped = os.path.abspath(f"{out_s}.{name}")
    subprocess.run([strip, "-s", "-o", stripped, path], check=True)
    with open(stripped, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    asm.append(f'/* {digest} */\n.section .rodata.sb_programs,"a"\n.balign 64\n.globl sb_program_{i}\n.hidden sb_program_{i}\n'
               f'sb_program_{i}:\n.incbin "{stripped}"\n.globl sb_program_{i}_end\n.hidden sb_program_{i}_end\nsb_program_{i}_end:\n.byte 0\n')
    decl.append(f"extern const char sb_program_{i}[], sb_program_{i}_end[];\n")
    table.append(f'    {{ "{name}", sb_program_{i}, sb_program_{i}_end }},\n')
with open(out_s, "w") as f:
    f.write("".join(asm) + '.section .note.GNU-stack,"",%progbits\n')
with open(out_c, "w") as f:
    f.write('#include "programs.h"\n' + "".join(decl) + "const struct sb_program sb_programs[] = {\n" + "".join(table) + "};\n"
            f"const size_t sb_programs_count = {len(programs)};\n")
