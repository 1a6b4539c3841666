package main

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

const childBody = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"web"},
"ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":"u1","controller":true}]},
"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
"spec":{"containers":[{"name":"widget","image":"x:1","env":[{"name":"A","value":"b"}],"ports":[{"name":"http","containerPort":80}],"resources":{"requests":{"cpu":"10m"}}}]}}}}`

const childPath = "/apis/apps/v1/namespaces/n/deployments"

func send(t *testing.T, method, url, media, text string) (int, tree) {
	t.Helper()
	request, _ := http.NewRequest(method, url, strings.NewReader(text))
	request.Header.Set("Content-Type", media)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body(t, response, err)
}

func apply(t *testing.T, url, manager, text string) (int, tree) {
	return send(t, "PATCH", url+"?fieldManager="+manager+"&force=true", "application/apply-patch+yaml", text)
}

func TestAnAppliedChildIsMadeWithTheFieldsOfItsManager(t *testing.T) {
	w, server := start(t, 0)
	code, made := apply(t, server.URL+childPath+"/web", "me", childBody)
	if code != http.StatusCreated || made["spec"].(tree)["revisionHistoryLimit"] != float64(10) {
		t.Fatalf("answered %d %v", code, made)
	}
	entry := made["metadata"].(tree)["managedFields"].([]any)[0].(tree)
	// As kube-apiserver 1.36 answers to the same body.
	want := parsed(t, []byte(`{"f:metadata":{"f:labels":{"f:app":{}},"f:ownerReferences":{"k:{\"uid\":\"u1\"}":{}}},"f:spec":{"f:replicas":{},"f:selector":{},
"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"widget\"}":{".":{},
"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},
"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}},"f:resources":{"f:requests":{"f:cpu":{}}}}}}}}}`))
	if !reflect.DeepEqual(entry["fieldsV1"], any(want)) || entry["operation"] != "Apply" || entry["manager"] != "me" {
		t.Errorf("managed fields %v", entry)
	}
	if w.counters.applies.Load() != 1 || w.counters.patches.Load() != 0 || w.counters.writes.Load() != 1 {
		t.Error("not counted")
	}
}

func TestTheSameApplyAgainChangesNothing(t *testing.T) {
	w, server := start(t, 0)
	_, made := apply(t, server.URL+childPath+"/web", "me", childBody)
	events := w.counters.events.Load()
	reordered := strings.Replace(childBody, `"replicas":2,`, `  "replicas":2,`, 1)
	for _, text := range []string{childBody, reordered, childBody} {
		code, again := apply(t, server.URL+childPath+"/web", "me", text)
		if code != http.StatusOK || !reflect.DeepEqual(again, made) {
			t.Errorf("answered %d %v", code, again)
		}
	}
	if w.counters.events.Load() != events {
		t.Error("an event of nothing")
	}
}

func TestWhatIsNoLongerAppliedGoesUnlessSomebodyElseOwnsIt(t *testing.T) {
	_, server := start(t, 0)
	url := server.URL + childPath + "/web"
	apply(t, url, "me", childBody)
	apply(t, url, "other", `{"metadata":{"labels":{"theirs":"1"}},"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s:1"}]}}}}`)
	smaller := strings.Replace(strings.Replace(childBody, `"env":[{"name":"A","value":"b"}],`, "", 1), `"labels":{"app":"web"},
`, "", 1)
	smaller = strings.Replace(smaller, `"replicas":2,`, `"replicas":3,`, 1)
	code, now := apply(t, url, "me", smaller)
	labels, _ := now["metadata"].(tree)["labels"].(tree)
	containers := now["spec"].(tree)["template"].(tree)["spec"].(tree)["containers"].([]any)
	if code != http.StatusOK || !reflect.DeepEqual(labels, tree{"theirs": "1"}) || len(containers) != 2 || containers[0].(tree)["env"] != nil {
		t.Errorf("answered %d: labels %v, containers %v", code, labels, containers)
	}
	if now["metadata"].(tree)["generation"] != float64(firstGeneration+2) { // the other container, then the replicas
		t.Errorf("generation %v", now["metadata"].(tree)["generation"])
	}
}

func TestAPutOfWhatIsThereChangesNothingAndAnOldVersionConflicts(t *testing.T) {
	w, server := start(t, 0)
	code, made := send(t, "POST", server.URL+childPath, jsonType, childBody)
	if code != http.StatusCreated || made["metadata"].(tree)["uid"] == nil {
		t.Fatalf("answered %d %v", code, made)
	}
	if code, status := send(t, "POST", server.URL+childPath, jsonType, childBody); code != 409 || status["reason"] != "AlreadyExists" {
		t.Errorf("a second POST answered %d %v", code, status)
	}
	events := w.counters.events.Load()
	text := string(w.byPlural("deployments").slots[0].object.raw)
	if _, again := send(t, "PUT", server.URL+childPath+"/web", jsonType, text); !reflect.DeepEqual(again, made) || w.counters.events.Load() != events {
		t.Errorf("the same again made %v", again)
	}
	scaled := strings.Replace(text, `"replicas":2`, `"replicas":5`, 1)
	if code, now := send(t, "PUT", server.URL+childPath+"/web", jsonType, scaled); code != 200 || now["spec"].(tree)["replicas"] != float64(5) {
		t.Errorf("answered %d %v", code, now)
	}
	if code, _ := send(t, "PUT", server.URL+childPath+"/web", jsonType, text); code != 409 {
		t.Errorf("an old version answered %d", code)
	}
	if w.counters.puts.Load() != 3 || w.counters.posts.Load() != 2 {
		t.Error("not counted")
	}
}

func TestADeletedChildIsGoneFromListsAndWatches(t *testing.T) {
	w, server := start(t, 0)
	url := server.URL + "/api/v1/namespaces/n/configmaps"
	for _, name := range []string{"b", "a", "c"} {
		send(t, "POST", url, jsonType, `{"metadata":{"name":"`+name+`"},"data":{"k":"v"}}`)
	}
	if code, _ := send(t, "DELETE", url+"/b", jsonType, ""); code != 200 {
		t.Errorf("answered %d", code)
	}
	list := parsed(t, first(fetch(t, url, "")))
	var names []string
	for _, item := range list["items"].([]any) {
		names = append(names, item.(tree)["metadata"].(tree)["name"].(string))
	}
	if strings.Join(names, " ") != "a c" || w.counters.deletes.Load() != 1 {
		t.Errorf("left are %v", names)
	}
	if code, status := send(t, "DELETE", url+"/b", jsonType, ""); code != 404 || status["message"] != `configmaps "b" not found` {
		t.Errorf("answered %d %v", code, status)
	}
}

func TestAStatusPatchThatChangesNothingMakesNoEvent(t *testing.T) {
	w, server := start(t, 1)
	o := w.byPlural("widgets").slots[0].object
	events := w.counters.events.Load()
	url := server.URL + "/apis/bench.steersman.dev/v1/namespaces/" + o.namespace + "/widgets/" + o.name + "/status"
	send(t, "PATCH", url, "application/merge-patch+json", `{"status":{"phase":"Ready"}}`)
	if w.counters.events.Load() != events {
		t.Error("an event of nothing")
	}
}

func TestAStatusAppliedAgainAfterSomebodyElsesPatchIsSetAgain(t *testing.T) {
	w, server := start(t, 1)
	o := w.byPlural("widgets").slots[0].object
	url := server.URL + "/apis/bench.steersman.dev/v1/namespaces/" + o.namespace + "/widgets/" + o.name
	apply(t, url+"/status", "me", `{"status":{"phase":"Mine"}}`)
	send(t, "PATCH", url+"/status", "application/merge-patch+json", `{"status":{"phase":"Theirs"}}`)
	if code, now := apply(t, url+"/status", "me", `{"status":{"phase":"Mine"}}`); code != 200 || now["status"].(tree)["phase"] != "Mine" {
		t.Errorf("answered %d %v", code, now["status"])
	}
	code, now := send(t, "PATCH", url, "application/merge-patch+json", `{"metadata":{"name":"`+o.name+`"}}`)
	if code != 200 || now["status"].(tree)["phase"] != "Mine" {
		t.Errorf("a patch of nothing answered %d %v", code, now["status"])
	}
}

func first(raw []byte, _ string) []byte { return raw }
