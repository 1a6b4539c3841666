"""Expressions: values, compile errors and evaluation errors, in CEL's own words."""

from typing import Any

import pytest

from steersman_cluster.cel import ANY, CelError, CompileError, compile, evaluate, from_schema  # noqa: A004

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "name": {"type": "string"},
                "half": {"type": "number"},
                "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
                "foo-bar": {"type": "string"},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "any": {"x-kubernetes-int-or-string": True},
                "since": {"type": "string", "format": "date-time"},
                "raw": {"type": "string", "format": "byte"},
            },
        }
    },
}
SELF = from_schema(SCHEMA, root=True)
assert SELF is not None
OBJECT = {
    "metadata": {"name": "n"},
    "spec": {
        "size": 3, "name": "abc", "half": 2, "items": [{"a": 1}, {"a": 2}], "foo-bar": "q", "tags": ["b", "a"],
        "any": "5%", "since": "2024-01-01T00:00:00Z", "raw": "aGk=",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.spec.size + 1", 4),
        ("self.spec.half / 4.0", 0.5),
        ("self.spec.items.all(i, i.a > 0)", True),
        ("self.spec.items.map(i, i.a * 2)", [2, 4]),
        ("self.spec.items.filter(i, i.a > 1).size()", 1),
        ("self.spec.items.exists_one(i, i.a == 1)", True),
        ("self.spec.items.map(i, i.a).sum()", 3),
        ("self.spec.foo__dash__bar", "q"),
        ("has(self.spec.size) && !has(self.metadata.generateName)", True),
        ("self.spec.tags == ['a', 'b']", True),
        ("self.spec.tags + ['a', 'c'] == ['a', 'b', 'c']", True),
        ("self.spec.since < timestamp('2025-01-01T00:00:00Z')", True),
        ("string(self.spec.raw)", "hi"),
        ("type(self.spec.any) == string", True),
        ("self.spec.?size.orValue(1)", 3),
        ("'%s-%d-%.2f-%x'.format(['a', 7, 1.5, 255])", "a-7-1.50-ff"),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("'hello'.substring(1, 3) + 'x'.upperAscii()", "elX"),
        ("'abc123'.find('[0-9]+')", "123"),
        ("'a1b2'.findAll('[0-9]')", ["1", "2"]),
        ("[3, 1, 2].min() + [3, 1, 2].max()", 4),
        ("['a', 'b'].isSorted() && [1, 2, 1].lastIndexOf(1) == 2", True),
        ("quantity('1Gi').compareTo(quantity('1024Mi'))", 0),
        ("quantity('50k').add(20).isGreaterThan(quantity('50k'))", True),
        ("url('https://a.b:80/p?q=1').getPort()", "80"),
        ("ip('127.0.0.1').isLoopback()", True),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
        ("string(cidr('10.1.2.3/8').masked())", "10.0.0.0/8"),
        ("sets.intersects([1, 2], [2, 3])", True),
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", True),
        ("format.dns1123Label().validate('Bad').value().size() > 0", True),
        ("duration('90m') == duration('1h30m')", True),
        ("7 % -4 == 3 && -7 / 2 == -3", True),
        ("1 == 1.0 || dyn(1) == 1.0", None),
        ("dyn(1) == 1.0", True),
        ("{'a': 1, 'b': 2}.size()", 2),
        ("1 / 0 == 1 || true", True),
        ("[0, 1].exists(x, 1 / x == 1)", True),
        ("timestamp('2024-03-01T10:00:00Z').getMonth()", 2),
        ("'x' in {'x': 1}", True),
        ("b'ab' == bytes('ab')", True),
        ("optional.none().hasValue()", False),
        ("[1, 2, 3].slice(1, 3) == [2, 3] && [[1], [2]].flatten() == [1, 2]", True),
    ],
)
def test_an_expression_has_its_value(expression: str, value: Any) -> None:
    assert SELF is not None
    if value is None:
        with pytest.raises(CompileError):
            compile(expression, {"self": SELF})
        return
    assert compile(expression, {"self": SELF}).evaluate({"self": OBJECT}) == value


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("self.spec.sizes", "ERROR: <input>:1:10: undefined field 'sizes'\n | self.spec.sizes\n | .........^"),
        ("foo", "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^"),
        (
            "self.spec.size > 'a'",
            "ERROR: <input>:1:16: found no matching overload for '_>_' applied to '(int, string)'",
        ),
        ("self.spec.name.foo()", "ERROR: <input>:1:19: undeclared reference to 'foo' (in container '')"),
        ("self.spec.size.startsWith('a')", "found no matching overload for 'startsWith' applied to 'int.(string)'"),
        ("1 +", "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting"),
        ("[1, 'a']", "expected type 'int' but found 'string'"),
        ("self.spec.size.all(x, true)", "expression of type 'int' cannot be range of a comprehension"),
        ("1\n+ foo", "ERROR: <input>:2:3: undeclared reference to 'foo' (in container '')\n | + foo\n | ..^"),
    ],
)
def test_a_bad_expression_is_refused_with_its_place(expression: str, text: str) -> None:
    assert SELF is not None
    with pytest.raises(CompileError) as caught:
        compile(expression, {"self": SELF})
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("object.data.x == 1", "no such key: data"),
        ("1 / object.zero == 1", "division by zero"),
        ("object.list[5] == 1", "index out of bounds: 5"),
        ("object.zero + 'a' == 'b'", "no such overload"),
        ("int('x') == 1", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("9223372036854775807 + object.one > 0", "integer overflow"),
        ("optional.none().value() == 1", "optional.none() dereference"),
    ],
)
def test_a_failing_evaluation_says_why(expression: str, text: str) -> None:
    with pytest.raises(CelError) as caught:
        evaluate(expression, {"object": {"zero": 0, "one": 1, "list": [1]}})
    assert str(caught.value) == text


def test_programs_are_cached_by_text_and_types() -> None:
    assert compile("object.a == 1", {"object": ANY}) is compile("object.a == 1", {"object": ANY})
