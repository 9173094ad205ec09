"""What GCC 12 compiles without a word and then runs wrong (CONTRIBUTING.md, "Coroutines"), looked for in the sources of algorithms."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = {
    "co_await behind ? or : (a named variable and an if instead)": re.compile(r"(?<!case )(?<!default)[?:]\s+\(?co_await\b"),
    "co_await before ? (a named variable instead)": re.compile(r"co_await\b[^;{}]*\?"),
    "co_await in a list of arguments (a named variable instead)": re.compile(r"\bco_await\b[^;]*\(\s*co_await\b|,\s*co_await\b|[a-z_]\(\s*co_await\b"),
    "a program that keeps a reference to what its maker had (capture by value instead)": re.compile(r"return \[&"),
    "a coroutine that is a lambda with captures": re.compile(r"\[[^\]]+\]\s*\((?:[^()]|\([^()]*\))*\)\s*(?:mutable\s*)?->\s*Task<"),
}


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def broken_rules(text):
    return [rule for rule, pattern in RULES.items() if pattern.search(without_comments(text))]


class CoroutineRules(unittest.TestCase):
    def test_algorithms_keep_them(self):
        sources = [path for ending in ("cpp", "hpp") for path in (ROOT / "algorithms").rglob(f"*.{ending}")]
        self.assertGreater(len(sources), 100)
        for path in sources:
            with self.subTest(path=path.name):
                self.assertEqual(broken_rules(path.read_text()), [])

    def test_they_find_what_they_are_for(self):
        for line in ("x = is_late ? co_await node.receive(a, t) : own;", "x = is_late ? own : co_await node.receive(a, t);",
                     "x.add(co_await node.receive(peer, tag));", "mix(x, co_await node.receive(peer, tag));",
                     "x = co_await exchange(node, x, is_late ? a : b);",
                     "return [&settings](Node& node) { return run(node, settings); };",
                     "const auto send = [&node](NodeId to) -> Task<> {", "const auto send = [&node, k](NodeId to, F (*f)(int)) -> Task<> {"):
            with self.subTest(line=line):
                self.assertTrue(broken_rules(line))
        for line in ("const Message m = co_await node.receive(peer, tag);", "while (m.number != n) m = co_await node.receive(left, tag);",
                     "co_return co_await receive_results(round);", "if (is_late) x = co_await average(node, x);",
                     "return [settings](Node& node) { return run(node, settings); };"):
            with self.subTest(line=line):
                self.assertFalse(broken_rules(line))


if __name__ == "__main__":
    unittest.main()
