#!/bin/sh
# Compiles classifier.c to classifier.o, or to the file named. Needs clang 14 and the headers of libbpf and the kernel
# (Debian 12: clang-14 libbpf-dev linux-libc-dev). The object is committed: building Earmark needs Rust alone.
set -eu
cd "$(dirname "$0")"
output=${1:-classifier.o}
clang-14 -O2 -Wall -Werror -target bpfel -mcpu=v3 -idirafter "/usr/include/$(uname -m)-linux-gnu" \
	-ffile-prefix-map="$PWD"=. -c classifier.c -o "$output"
