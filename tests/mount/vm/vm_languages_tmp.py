#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The templates of compiled and of other languages: their images are built when they are first needed, and compile and
run what they should."""
# backends: vm
# night: vm
# timeout: 3600
# conf: prepare = no
# conf: [template go]
# conf: [template rust]
# conf: [template java]
# conf: [template ruby]
# conf: [template php]
# conf: [template r]
from xsbx import *

vm_only()

# Of each: a program, how it is run in bash, what it prints.
PROGRAMS = {
    "go": ("main.go", """package main
import ("fmt"; "sort")
func main() { a := []int{3, 1, 2}; sort.Ints(a); fmt.Println("go", a) }
""", "go run main.go", "go [1 2 3]\n"),
    "rust": ("main.rs", """fn main() { let s: u64 = (1..=10).product(); println!("rust {}", s); }
""", "rustc -O main.rs && ./main", "rust 3628800\n"),
    "java": ("Main.java", """public class Main { public static void main(String[] a) {
    System.out.println("java " + java.util.stream.IntStream.rangeClosed(1, 10).sum()); } }
""", "javac Main.java && java Main", "java 55\n"),
    "ruby": ("main.rb", "puts \"ruby #{(1..10).sum}\"\n", "ruby main.rb", "ruby 55\n"),
    "php": ("main.php", "<?php echo 'php ', array_sum(range(1, 10)), \"\\n\";\n", "php main.php", "php 55\n"),
    "r": ("main.R", "cat('r', sum(1:10), '\\n')\nprint(round(coef(lm(dist ~ speed, cars))[[2]], 3))\n", "Rscript main.R",
          "r 55 \n[1] 3.932\n"),
}


def image(name):
    return [t for t in json.loads(read(f"{MNT}/status.json"))["templates"] if t["name"] == name][0]["image"]


def one(name):
    file, program, command, want = PROGRAMS[name]
    there = image(name)["state"] == "ready"
    began = time.monotonic()
    s = Session("hello", name, config="timeout_s = 900\n")
    s.submit("echo up\n")
    # An image that is built takes longer than a session waits for anything else.
    while not there and wait_for(lambda: image(name)["state"] in ("building", "waiting"), 2):
        time.sleep(2)
    if image(name)["state"] != "ready":
        print(f"{name}: no image: {s.text('error').strip()[:300]}")
        fail(f"{name}: its image is built", image(name))
        return
    same(f"{name}: a first result", s.text("stdout"), "up\n")
    first = time.monotonic() - began
    write(s / f"files/{file}", program)
    began = time.monotonic()
    result = s.run(command + "\n")
    same(f"{name}: its program", result.out, want) or print(result, s.text("stderr")[-500:])
    took = time.monotonic() - began
    size = os.path.getsize(f"{os.environ['IMAGES']}/images/templates/{name}/rootfs.erofs") >> 20
    print(f"{name}: image {size} MiB{'' if there else ', just built'}; first result {first:.1f} s, program {took:.1f} s")
    s.remove()


def of(name):
    def test():
        one(name)
    test.__name__ = name
    return test


del PROGRAMS["java"]
main(*map(of, PROGRAMS))
