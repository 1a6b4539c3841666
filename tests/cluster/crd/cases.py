"""Schemas, values and definitions with the responses of a real kube-apiserver 1.36 in `answers.json`."""

from typing import Any

S = {"type": "string"}
I = {"type": "integer"}  # noqa: E741
N = {"type": "number"}


def obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def arr(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def rule(schema: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": text, **more}]}


VALUES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "int": (I, [1, "a", 1.5, 1.0, True, {}, [], 2**40, None]),
    "int32": ({**I, "format": "int32"}, [1, 2**31, -(2**31) - 1, "x"]),
    "int64": ({**I, "format": "int64"}, [2**40]),
    "num": (N, [1, 1.5, "a", False, 1e30]),
    "float": ({**N, "format": "float"}, [1.5, 1e39]),
    "str": (S, ["a", 1, 1.5, True, ["x"], {"a": 1}]),
    "bool": ({"type": "boolean"}, [True, "true", 1]),
    "min": ({**I, "minimum": 0}, [-1, 0]),
    "exmin": ({**I, "minimum": 0, "exclusiveMinimum": True}, [0, 1]),
    "max": ({**I, "maximum": 10}, [11, 10]),
    "exmax": ({**I, "maximum": 10, "exclusiveMaximum": True}, [10, 9]),
    "fmin": ({**N, "minimum": 0.5}, [0.25, 0, 1]),
    "fmax": ({**N, "maximum": 1.5, "exclusiveMaximum": True}, [1.5, 2, 1]),
    "mult": ({**I, "multipleOf": 5}, [7, 10]),
    "fmult": ({**N, "multipleOf": 0.1}, [0.25, 0.3, 3]),
    "minlen": ({**S, "minLength": 3}, ["ab", "", "äöü"]),
    "maxlen": ({**S, "maxLength": 3}, ["abcd", "äöü"]),
    "maxlenone": ({**S, "maxLength": 1}, ["ab"]),
    "pattern": ({**S, "pattern": "^[a-z]+$"}, ["A", "a\n", "abc", 'say "x"']),
    "enum": ({**S, "enum": ["a", "b"]}, ["c", "a", 1]),
    "intenum": ({**I, "enum": [1, 2]}, [3, 1, 1.0]),
    "numenum": ({**N, "enum": [1, 2.5]}, [3, 1, 2.5, 1.5]),
    "date": ({**S, "format": "date"}, ["2024-02-30", "2024-02-28", "x"]),
    "datetime": ({**S, "format": "date-time"}, ["2024-02-28T10:00:00Z", "2024-02-28", "2024-02-28T25:00:00Z"]),
    "email": ({**S, "format": "email"}, ["a@b.c", "a", "A <a@b.c>", "a@"]),
    "hostname": ({**S, "format": "hostname"}, ["a.b.com", "-a", "a_b", "a..b"]),
    "ipv4": ({**S, "format": "ipv4"}, ["10.0.0.1", "10.0.0", "::1", "010.0.0.1"]),
    "ipv6": ({**S, "format": "ipv6"}, ["::1", "10.0.0.1", "x"]),
    "cidr": ({**S, "format": "cidr"}, ["10.0.0.0/8", "10.0.0.0", "10.0.0.0/33"]),
    "mac": ({**S, "format": "mac"}, ["00:00:5e:00:53:01", "00:00", "0000.5e00.5301"]),
    "uri": ({**S, "format": "uri"}, ["https://a.b/c", "/a", "a", "http://a b"]),
    "uuid": ({**S, "format": "uuid"}, ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "x"]),
    "byte": ({**S, "format": "byte"}, ["aGk=", "a", "!"]),
    "duration": ({**S, "format": "duration"}, ["1h30m", "3 hours", "x", "1"]),
    "password": ({**S, "format": "password"}, ["x"]),
    "unknownformat": ({**S, "format": "nope"}, ["x"]),
    "isbn": ({**S, "format": "isbn"}, ["978-0321751041", "0321751043", "1"]),
    "creditcard": ({**S, "format": "creditcard"}, ["4111 1111 1111 1111", "1"]),
    "ssn": ({**S, "format": "ssn"}, ["111-11-1111", "1"]),
    "hexcolor": ({**S, "format": "hexcolor"}, ["#FFF", "#GG0000"]),
    "rgbcolor": ({**S, "format": "rgbcolor"}, ["rgb(1,2,3)", "rgb(256,0,0)"]),
    "bson": ({**S, "format": "bsonobjectid"}, ["507f1f77bcf86cd799439011", "x"]),
    "shortname": ({**S, "format": "k8s-short-name"}, ["abc", "Abc"]),
    "longname": ({**S, "format": "k8s-long-name"}, ["a.b", "a..b"]),
    "minitems": (arr(S, minItems=2), [["a"], ["a", "b"], "x"]),
    "maxitems": (arr(S, maxItems=1), [["a", "b"], ["a"]]),
    "items": (arr(I), [[1, "a", None], [1]]),
    "minprops": ({"type": "object", "additionalProperties": S, "minProperties": 1}, [{}, {"a": "b"}]),
    "maxprops": ({"type": "object", "additionalProperties": S, "maxProperties": 1}, [{"a": "b", "c": "d"}]),
    "map": ({"type": "object", "additionalProperties": I}, [{"a": "b"}, {"a": 1}, {"a": None}]),
    "anymap": ({"type": "object", "additionalProperties": True}, [{"a": {"b": 1}, "c": [{"d": 1}], "e": 1}]),
    "required": (obj({"a": S, "b": S}, required=["a", "b"]), [{}, {"a": "x"}, {"a": None, "b": "x"}]),
    "nested": (obj({"a": obj({"b": I}, required=["b"])}), [{"a": {}}, {"a": {"b": "x"}}, {"a": 1}, {"a": {"c": 1}}]),
    "nullable": ({**S, "nullable": True}, [None, "a", 1]),
    "nullint": (obj({"a": {**I, "nullable": True, "enum": [1]}}), [{"a": None}]),
    "withdefault": (
        obj(
            {
                "a": {**I, "default": 5},
                "b": {"type": "object", "default": {}, "properties": {"c": {**S, "default": "x"}}},
            }
        ),
        [{}, {"a": None}, {"a": 1}],
    ),
    "nulldefault": (obj({"a": {**I, "default": 5, "nullable": True}}), [{"a": None}, {}]),
    "intorstring": ({"x-kubernetes-int-or-string": True}, [1, "a", 1.5, True, {}]),
    "iosanyof": ({"x-kubernetes-int-or-string": True, "anyOf": [I, S], "pattern": "^[0-9]+%$"}, [1, "5%", "x"]),
    "preserve": ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, [{"a": {"b": [1]}}, 5]),
    "preserveany": ({"x-kubernetes-preserve-unknown-fields": True}, [5, "a", {"a": 1}, [1]]),
    "preservepart": (
        obj({"a": obj({"b": S})}, **{"x-kubernetes-preserve-unknown-fields": True}),
        [{"x": 1, "a": {"b": "c", "d": 1}}],
    ),
    "set": (arr(S, **{"x-kubernetes-list-type": "set"}), [["a", "b", "a", "a"], ["a"]]),
    "intset": (arr(I, **{"x-kubernetes-list-type": "set"}), [[1, 1], [1, 2]]),
    "listmap": (
        arr(
            obj({"name": S, "x": I}, required=["name"]),
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
        [[{"name": "a"}, {"name": "a"}], [{"name": "a"}, {"x": 1}], [{"name": "a"}, {"name": "b"}]],
    ),
    "listmap2": (
        arr(
            obj({"name": S, "p": {**I, "default": 1}}, required=["name"]),
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "p"]},
        ),
        [[{"name": "a", "p": 1}, {"name": "a"}], [{"name": "a", "p": 2}, {"name": "a", "p": 1}]],
    ),
    "anyof": (
        obj({"a": S, "b": I}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]),
        [{}, {"a": "x"}, {"a": "x", "b": 1}],
    ),
    "oneof": (
        obj({"a": S, "b": I}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]),
        [{}, {"a": "x"}, {"a": "x", "b": 1}],
    ),
    "allof": (
        obj({"a": S, "b": I}, allOf=[{"required": ["a"]}, {"required": ["b"]}]),
        [{}, {"a": "x"}, {"a": "x", "b": 1}],
    ),
    "not": (obj({"a": S}, **{"not": {"required": ["a"]}}), [{"a": "x"}, {}]),
    "anyofvalues": ({**I, "anyOf": [{"minimum": 10}, {"maximum": -10, "multipleOf": 2}]}, [5, 10, -12, -11]),
    "oneofprops": (
        obj(
            {"a": I, "b": S},
            oneOf=[
                {"properties": {"a": {"minimum": 5}}, "required": ["a"]},
                {"properties": {"b": {"pattern": "^x"}}, "required": ["b"]},
            ],
        ),
        [{"a": 1}, {"b": "y"}, {"a": 1, "b": "y"}, {"a": 5}],
    ),
    "embedded": (
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        [
            {},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
            {"apiVersion": "a/b/c", "kind": "po_d"},
            {"apiVersion": "", "kind": ""},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b", "labels": {"x": "a b"}}},
        ],
    ),
    "rule": (rule(obj({"a": I, "b": I}), "self.a < self.b"), [{"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 1}]),
    "rulescalar": (rule(I, "self % 2 == 0"), [3, 4]),
    "rulestring": (rule(S, "self.startsWith('a')", message="must start with a"), ["b", "ab"]),
    "ruleexpr": (rule(obj({"a": I}), "self.a > 3", messageExpression="'got %d'.format([self.a])"), [{"a": 1}]),
    "rulebadexpr": (
        rule(obj({"a": I, "b": S}), "self.a > 3", messageExpression="self.b", message="fallback"),
        [{"a": 1}],
    ),
    "rulepath": (rule(obj({"a": I}), "self.a > 3", fieldPath=".a", reason="FieldValueForbidden"), [{"a": 1}]),
    "rulereq": (
        rule(obj({"a": I}), "has(self.a)", fieldPath=".a", reason="FieldValueRequired", message="need a"),
        [{}],
    ),
    "ruledup": (rule(I, "self > 3", reason="FieldValueDuplicate"), [1]),
    "rulearr": (rule(arr(I, maxItems=10), "self.all(x, x > 0)"), [[1, -1], [1]]),
    "ruleitems": (arr(rule(obj({"a": I}), "self.a > 0"), maxItems=10), [[{"a": 1}, {"a": 0}]]),
    "rulemap": ({"type": "object", "maxProperties": 5, "additionalProperties": rule(I, "self > 0")}, [{"x": 0}]),
    "ruleallof": ({**I, "allOf": [{"minimum": 3}]}, [1]),
    "rulezero": (rule(obj({"a": I}), "10 / self.a > 1"), [{"a": 0}, {"a": 1}]),
    "ruleios": (rule({"x-kubernetes-int-or-string": True}, "self > 5"), ["a", 6, 4]),
    "ruletime": (
        rule(obj({"a": {**S, "format": "date-time"}}), "self.a < timestamp('2024-01-01T00:00:00Z')"),
        [{"a": "2023-01-01T00:00:00Z"}, {"a": "2025-01-01T00:00:00Z"}],
    ),
    "rulequantity": (
        rule({**S, "maxLength": 20}, "isQuantity(self) && quantity(self).isLessThan(quantity('2Gi'))"),
        ["1Gi", "3Gi", "x"],
    ),
    "ruleurl": (rule({**S, "maxLength": 50}, "url(self).getHostname() == 'a.b'"), ["https://a.b:1/c", "x"]),
    "ruleip": (rule({**S, "maxLength": 50}, "ip(self).family() == 4"), ["10.0.0.1", "::1", "x"]),
    "rulecidr": (rule({**S, "maxLength": 50}, "cidr('10.0.0.0/8').containsIP(self)"), ["10.0.0.1", "1.1.1.1"]),
    "ruleset": (
        rule(arr({**S, "maxLength": 5}, maxItems=5, **{"x-kubernetes-list-type": "set"}), "self == ['a', 'b']"),
        [["b", "a"], ["a"]],
    ),
    "ruleescape": (
        rule(obj({"foo-bar": S, "namespace": S}), "self.foo__dash__bar == self.__namespace__"),
        [{"foo-bar": "a", "namespace": "b"}, {"foo-bar": "a", "namespace": "a"}],
    ),
    "ruleoptional": (rule(obj({"a": I}), "self.?a.orValue(7) == 7"), [{}, {"a": 1}]),
    "rulenum": (rule(obj({"a": N}), "self.a / 2.0 == 1.5"), [{"a": 3}, {"a": 3.0}, {"a": 1}]),
    "rulemulti": (rule(obj({"a": I}), "\nself.a\n> 3", message="big"), [{"a": 1}]),
    "rulefind": (rule({**S, "maxLength": 20}, "self.find('[0-9]+') == '42'"), ["a42b", "x"]),
    "ruleformat": (rule({**S, "maxLength": 20}, "!format.dns1123Label().validate(self).hasValue()"), ["abc", "ABC"]),
    "rulesemver": (rule({**S, "maxLength": 20}, "semver(self).major() == 1"), ["1.2.3", "2.0.0", "x"]),
    "ruletwo": (
        rule(
            {"type": "object", "maxProperties": 5, "additionalProperties": {**S, "maxLength": 5}},
            "self.all(k, k.startsWith('a'))",
        ),
        [{"ab": "x"}, {"b": "x"}],
    ),
}
"""One property of `spec` each: its schema, and values to try."""


def definition(schema: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A definition of one version; `changes` are set by dotted path, with `__` for dots, `None` removes."""
    made: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": obj({"spec": schema or obj({"a": S})})},
                }
            ],
        },
    }
    for path, value in changes.items():
        at: Any = made
        names = [int(name) if name.isdigit() else name for name in path.split("__")]
        for name in names[:-1]:
            at = at[name] if isinstance(name, int) or name in at else at.setdefault(name, {})
        if value is None:
            del at[names[-1]]
        else:
            at[names[-1]] = value
    return made


V0 = "spec__versions__0__"
V2 = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": obj({"spec": obj({"b": S})})}}
DEFINITIONS: dict[str, dict[str, Any]] = {
    "good": definition(),
    "wrong name": definition(metadata__name="x.example.com"),
    "bad plural": definition(spec__names__plural="Things", metadata__name="things.example.com"),
    "no dot in group": definition(spec__group="example", metadata__name="things.example"),
    "bad group": definition(spec__group="Exam_ple.com", metadata__name="things.exam.com"),
    "bad scope": definition(spec__scope="Galaxy"),
    "bad kind": definition(spec__names__kind="Th_ing"),
    "kind is listKind": definition(spec__names__listKind="Thing"),
    "bad short name": definition(spec__names__shortNames=["X"]),
    "bad category": definition(spec__names__categories=["X y"]),
    "no storage version": definition(**{V0 + "storage": False}),
    "bad version name": definition(**{V0 + "name": "V_1"}),
    "no schema": definition(**{V0 + "schema": None}),
    "two storage versions": definition(
        spec__versions=[
            {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": obj({})}}
            for name in ("v1", "v2")
        ]
    ),
    "same version twice": definition(
        spec__versions=[
            {"name": "v1", "served": True, "storage": first, "schema": {"openAPIV3Schema": obj({})}}
            for first in (True, False)
        ]
    ),
    "type missing": definition({"properties": {"a": S}}),
    "type unknown": definition({"type": "text"}),
    "items missing": definition({"type": "array"}),
    "root additionalProperties": definition(
        **{V0 + "schema__openAPIV3Schema": {"type": "object", "additionalProperties": S}}
    ),
    "both properties": definition({"type": "object", "properties": {"a": S}, "additionalProperties": S}),
    "root type": definition(**{V0 + "schema__openAPIV3Schema": {"type": "string"}}),
    "uniqueItems": definition(arr(S, uniqueItems=True)),
    "bad pattern": definition({**S, "pattern": "(["}),
    "nested type": definition(obj({"a": S}, anyOf=[{"type": "object"}])),
    "nested description": definition(obj({"a": S}, allOf=[{"description": "x"}])),
    "nested default": definition(obj({"a": S}, anyOf=[{"properties": {"a": {"default": "x"}}}])),
    "incomplete": definition(obj({"a": S}, oneOf=[{"properties": {"b": {"minimum": 1}}}])),
    "metadata": definition(**{V0 + "schema__openAPIV3Schema": obj({"metadata": obj({"labels": obj({})})})}),
    "metadata name": definition(
        **{V0 + "schema__openAPIV3Schema": obj({"metadata": obj({"name": {**S, "maxLength": 5}})})}
    ),
    "kind not string": definition(**{V0 + "schema__openAPIV3Schema": obj({"kind": I})}),
    "ref": definition({"$ref": "#/x"}),
    "definitions": definition(obj({"a": S}, definitions={"x": S})),
    "patternProperties": definition(obj({"a": S}, patternProperties={"x": S})),
    "null type": definition({"type": "null"}),
    "list type on string": definition({**S, "x-kubernetes-list-type": "set"}),
    "bad list type": definition(arr(S, **{"x-kubernetes-list-type": "bag"})),
    "map keys missing": definition(arr(obj({"a": S}), **{"x-kubernetes-list-type": "map"})),
    "map key unknown": definition(
        arr(obj({"a": S}), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b"]})
    ),
    "map key optional": definition(
        arr(obj({"a": S}), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})
    ),
    "map key object": definition(
        arr(
            obj({"a": obj({})}, required=["a"]),
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
        )
    ),
    "map keys without map": definition(arr(obj({"a": S}), **{"x-kubernetes-list-map-keys": ["a"]})),
    "map of strings": definition(arr(S, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})),
    "set of granular objects": definition(arr(obj({"a": S}), **{"x-kubernetes-list-type": "set"})),
    "nullable set items": definition(arr({**S, "nullable": True}, **{"x-kubernetes-list-type": "set"})),
    "map type on array": definition(arr(S, **{"x-kubernetes-map-type": "atomic"})),
    "bad map type": definition(obj({"a": S}, **{"x-kubernetes-map-type": "x"})),
    "preserve false": definition(obj({"a": S}, **{"x-kubernetes-preserve-unknown-fields": False})),
    "int or string with type": definition({"type": "string", "x-kubernetes-int-or-string": True}),
    "embedded without properties": definition({"type": "object", "x-kubernetes-embedded-resource": True}),
    "embedded string": definition({"type": "string", "x-kubernetes-embedded-resource": True}),
    "default of wrong type": definition(obj({"a": {**I, "default": "x"}})),
    "default out of range": definition(obj({"a": {**I, "minimum": 5, "default": 1}})),
    "default with unknown field": definition(obj({"a": {**obj({"b": S}), "default": {"c": "d"}}})),
    "default in metadata": definition(
        **{V0 + "schema__openAPIV3Schema": obj({"metadata": obj({"name": {**S, "default": "x"}})})}
    ),
    "default breaks rule": definition(obj({"a": {**rule(I, "self > 3"), "default": 1}})),
    "rule syntax": definition(rule(obj({"a": I}), "self.a >")),
    "rule unknown field": definition(rule(obj({"a": I}), "self.b > 1")),
    "rule bad type": definition(rule(obj({"a": I}), "self.a == 'x'")),
    "rule unknown function": definition(rule(obj({"a": I}), "self.a.foo()")),
    "rule unknown variable": definition(rule(obj({"a": I}), "x > 1")),
    "rule not bool": definition(rule(obj({"a": I}), "self.a")),
    "rule empty": definition(rule(obj({"a": I}), " ")),
    "rule message empty": definition(rule(obj({"a": I}), "self.a > 1", message=" ")),
    "rule message lines": definition(rule(obj({"a": I}), "self.a > 1", message="a\nb")),
    "rule lines without message": definition(rule(obj({"a": I}), "self.a\n> 1")),
    "rule reason": definition(rule(obj({"a": I}), "self.a > 1", reason="Nope")),
    "rule fieldPath": definition(rule(obj({"a": I}), "self.a > 1", fieldPath=".b")),
    "rule fieldPath form": definition(rule(obj({"a": I}), "self.a > 1", fieldPath="a")),
    "rule messageExpression": definition(rule(obj({"a": I}), "self.a > 1", messageExpression="self.a")),
    "rule messageExpression syntax": definition(rule(obj({"a": I}), "self.a > 1", messageExpression="'a")),
    "rule oldSelf in atomic list": definition(arr(rule(obj({"a": I}), "self.a > oldSelf.a"), maxItems=3)),
    "rule optionalOldSelf unused": definition(rule(obj({"a": I}), "self.a > 1", optionalOldSelf=True)),
    "rule list": definition(rule(arr(S, maxItems=3), "self[0] + 1 == 2")),
    "rule mixed list": definition(rule(obj({"a": I}), "[1, 'a'].size() == 2")),
    "rule ternary": definition(rule(obj({"a": I}), "self.a ? true : false")),
    "rule has": definition(rule(obj({"a": I}), "has(self.b)")),
    "rule in allOf": definition(obj({"a": I}, allOf=[rule({}, "self.a > 1")])),
    "rule comprehension": definition(rule(obj({"a": I}), "self.a.all(x, x > 1)")),
    "rule good": definition(rule(obj({"a": I}), "self.a > 1 || !has(self.a)")),
    "rule bad regex": definition(rule({**S, "maxLength": 5}, "self.matches('([')")),
    "scale without paths": definition(
        **{V0 + "subresources": {"scale": {"specReplicasPath": "", "statusReplicasPath": ".status.x"}}}
    ),
    "scale paths": definition(
        **{
            V0 + "subresources": {
                "scale": {"specReplicasPath": "spec.x", "statusReplicasPath": ".spec.x", "labelSelectorPath": ".x"}
            }
        }
    ),
    "scale good": definition(
        **{V0 + "subresources": {"scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x"}}}
    ),
    "status with oneOf": definition(
        **{
            V0 + "subresources": {"status": {}},
            V0 + "schema__openAPIV3Schema": obj({"spec": obj({"a": S})}, oneOf=[{"required": ["spec"]}]),
        }
    ),
    "status root type": definition(
        **{V0 + "subresources": {"status": {}}, V0 + "schema__openAPIV3Schema": {"type": "string"}}
    ),
    "nullable root": definition(**{V0 + "schema__openAPIV3Schema": obj({}, nullable=True)}),
    "column": definition(
        **{V0 + "additionalPrinterColumns": [{"name": "", "type": "text", "format": "x", "jsonPath": "spec.a"}]}
    ),
    "column without path": definition(
        **{V0 + "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ""}]}
    ),
    "selectable": definition(
        obj({"a": S, "b": obj({})}),
        **{
            V0 + "selectableFields": [
                {"jsonPath": ".spec.a"},
                {"jsonPath": ".spec.b"},
                {"jsonPath": ".spec.c"},
                {"jsonPath": ".spec.a"},
                {"jsonPath": "spec.a"},
                {"jsonPath": ".spec['a']"},
            ]
        },
    ),
    "selectable metadata": definition(
        **{
            V0 + "schema__openAPIV3Schema": obj({"metadata": obj({"name": S})}),
            V0 + "selectableFields": [{"jsonPath": ".metadata.name"}],
        }
    ),
    "selectable nine": definition(
        obj({f"f{n}": S for n in range(9)}),
        **{V0 + "selectableFields": [{"jsonPath": f".spec.f{n}"} for n in range(9)]},
    ),
    "deprecation": definition(**{V0 + "deprecationWarning": "old"}),
    "conversion strategy": definition(spec__conversion={"strategy": "Magic"}),
    "conversion without client": definition(spec__conversion={"strategy": "Webhook"}),
    "conversion client": definition(
        spec__conversion={
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v9", "v9"], "clientConfig": {"url": "http://u@x?q#f"}},
        }
    ),
    "conversion url and service": definition(
        spec__conversion={
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://x", "service": {"name": "a", "namespace": "b"}},
            },
        }
    ),
    "conversion without need": definition(
        spec__conversion={
            "strategy": "None",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x"}},
        }
    ),
    "two versions": definition(spec__versions=[definition()["spec"]["versions"][0], V2]),
    "fault in second version": definition(
        spec__versions=[definition()["spec"]["versions"][0], {**V2, "schema": {"openAPIV3Schema": obj({"spec": {}})}}]
    ),
    "protected group": definition(spec__group="x.k8s.io", metadata__name="things.x.k8s.io"),
    "preserveUnknownFields": definition(spec__preserveUnknownFields=True),
    "unknown format": definition({**S, "format": "nope"}),
}
"""Whole definitions, sent as dry runs."""
