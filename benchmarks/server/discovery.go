package main

import (
	"encoding/json"
	"net/http"
	"strings"
)

// serveDiscovery answers /version, /api, /apis and their groups in the legacy form; clients that ask for the
// aggregated form fall back to it. It reports whether the path was one of these.
func (w *world) serveDiscovery(rw http.ResponseWriter, r *http.Request) bool {
	path := strings.Trim(r.URL.Path, "/")
	var answer any
	switch parts := strings.Split(path, "/"); {
	case path == "version":
		answer = tree{"major": "1", "minor": "36", "gitVersion": "v1.36.2", "platform": "linux/amd64"}
	case path == "healthz" || path == "readyz" || path == "livez":
		_, _ = rw.Write([]byte("ok"))
		return true
	case path == "api":
		answer = tree{"kind": "APIVersions", "versions": []string{"v1"}, "serverAddressByClientCIDRs": []any{}}
	case path == "apis":
		var groups []any
		for _, name := range groupNames() {
			groups = append(groups, group(name))
		}
		answer = tree{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
	case parts[0] == "apis" && len(parts) == 2:
		answer = group(parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		answer = resources(parts[1], parts[2])
	case parts[0] == "api" && len(parts) == 2:
		answer = resources("", parts[1])
	default:
		return false
	}
	if answer == nil {
		return false
	}
	body, _ := json.Marshal(answer)
	w.answer(rw, http.StatusOK, asJSON, body)
	return true
}

func groupNames() (names []string) {
	seen := map[string]bool{"": true}
	for _, k := range kinds {
		if !seen[k.group] {
			seen[k.group] = true
			names = append(names, k.group)
		}
	}
	return names
}

func group(name string) any {
	for _, k := range kinds {
		if k.group == name && name != "" {
			v := tree{"groupVersion": k.apiVersion(), "version": k.version}
			return tree{"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": []any{v}, "preferredVersion": v}
		}
	}
	return nil
}

func resources(group, version string) any {
	var list []any
	apiVersion := ""
	verbs := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	for _, k := range kinds {
		if k.group != group || k.version != version {
			continue
		}
		apiVersion = k.apiVersion()
		list = append(list, tree{"name": k.plural, "singularName": strings.ToLower(k.kind), "namespaced": k.namespaced, "kind": k.kind, "verbs": verbs})
		if k.hasStatus {
			list = append(list, tree{"name": k.plural + "/status", "singularName": "", "namespaced": k.namespaced, "kind": k.kind, "verbs": []string{"get", "patch", "update"}})
		}
	}
	if list == nil {
		return nil
	}
	return tree{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": apiVersion, "resources": list}
}
