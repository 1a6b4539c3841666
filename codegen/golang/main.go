package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"
	reg "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type F struct {
	T    string `json:"t"`
	Omit bool   `json:"omit"`
	Zero bool   `json:"zero"`
	Kind string `json:"kind"`
	Inl  bool   `json:"inl,omitempty"`
	Ref  string `json:"ref"`
	Key  string `json:"key"`
}

var out = map[string]map[string]F{}

func full(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

func walk(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() == "" {
		return
	}
	n := full(t)
	if _, ok := out[n]; ok {
		return
	}
	m := map[string]F{}
	out[n] = m
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		if f.PkgPath != "" && !f.Anonymous {
			continue
		}
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		parts := strings.Split(tag, ",")
		name := parts[0]
		inl := name == ""
		if inl {
			name = "~" + f.Name
		}
		ft := f.Type
		k := ft.Kind().String()
		et := ft
		if et.Kind() == reflect.Pointer {
			et = et.Elem()
		}
		ref := ""
		base := et
		for base.Kind() == reflect.Slice || base.Kind() == reflect.Map || base.Kind() == reflect.Pointer {
			base = base.Elem()
		}
		ref = full(base)
		m[name] = F{T: et.String(), Omit: strings.Contains(tag, "omitempty"), Zero: strings.Contains(tag, "omitzero"), Kind: k, Inl: inl, Ref: ref, Key: et.Kind().String()}
		walk(f.Type)
	}
}

func main() {
	_ = apiext.AddToScheme(scheme.Scheme)
	_ = reg.AddToScheme(scheme.Scheme)
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if strings.HasPrefix(gvk.Version, "__") {
			continue
		}
		walk(t)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}
