#!/bin/sh
# Compiles each program to an object beside it, or into the directory named. Needs clang 14 and the headers of libbpf and
# the kernel (Debian 12: clang-14 libbpf-dev linux-libc-dev). The objects are committed: building Earmark needs Rust alone.
set -eu
cd "$(dirname "$0")"
output=${1:-.}
for program in classifier rsvp boomerang yessir nsis packets; do
	clang-14 -O2 -Wall -Werror -target bpfel -mcpu=v3 -idirafter "/usr/include/$(uname -m)-linux-gnu" \
		-ffile-prefix-map="$PWD"=. -c "$program.c" -o "$output/$program.o"
done
