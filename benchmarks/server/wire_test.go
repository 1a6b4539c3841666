package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

const (
	metaSuffix = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	listSuffix = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// codec reads what the Kubernetes libraries read.
func codec() *protobuf.Serializer {
	scheme := runtime.NewScheme()
	for _, add := range schemes {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		panic(err)
	}
	_ = serializer.NewCodecFactory(scheme)
	return protobuf.NewSerializer(scheme, scheme)
}

var schemes = []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme}

// decoded is a protobuf object as a tree of JSON.
func decoded(t *testing.T, raw []byte) tree {
	t.Helper()
	object, _, err := codec().Decode(raw, nil, nil)
	if err != nil {
		t.Fatalf("%v in %.200q", err, raw)
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, text)
}

func parsed(t *testing.T, text []byte) tree {
	t.Helper()
	var root tree
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return root
}

// tidied drops what only one of two encodings writes: empty values, and null times.
func tidied(value any) any {
	switch value := value.(type) {
	case tree:
		kept := tree{}
		for key, child := range value {
			if child = tidied(child); child != nil {
				kept[key] = child
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, child := range value {
			kept[i] = tidied(child)
		}
		return kept
	}
	return value
}

func same(t *testing.T, what string, a, b any) {
	t.Helper()
	if a, b = tidied(a), tidied(b); !reflect.DeepEqual(a, b) {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		t.Errorf("%s differs:\n%s\n%s", what, x, y)
	}
}

func open(t *testing.T, url, accept string) *http.Response {
	t.Helper()
	request, _ := http.NewRequest("GET", url, nil)
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func fetch(t *testing.T, url, accept string) ([]byte, string) {
	t.Helper()
	response := open(t, url, accept)
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s", url, accept, response.StatusCode, raw)
	}
	return raw, response.Header.Get("Content-Type")
}

// frames are the events of a binary watch, decoded.
func frames(t *testing.T, stream io.ReadCloser) func() (string, tree) {
	t.Helper()
	reader := protobuf.LengthDelimitedFramer.NewFrameReader(stream)
	buffer := make([]byte, 1<<20)
	return func() (string, tree) {
		n, err := reader.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		var e metav1.WatchEvent
		if err := e.Unmarshal(buffer[:n]); err != nil {
			t.Fatal(err)
		}
		return e.Type, decoded(t, e.Object.Raw)
	}
}

func path(k *kindInfo) string {
	if k.group == "" {
		return "/api/" + k.version + "/" + k.plural
	}
	return "/apis/" + k.group + "/" + k.version + "/" + k.plural
}

func TestAListInProtobufIsTheListInJSON(t *testing.T) {
	w, server := start(t, 5)
	for _, c := range w.collections {
		if c.templates == nil || c.message == nil {
			continue
		}
		text, _ := fetch(t, server.URL+path(c.kindInfo)+"?limit=3", jsonType)
		raw, contentType := fetch(t, server.URL+path(c.kindInfo)+"?limit=3", protobufType)
		if contentType != protobufType {
			t.Errorf("%s: content type %s", c.plural, contentType)
		}
		same(t, c.plural, decoded(t, raw), parsed(t, text))
	}
}

func TestItemsOfBuiltInKindsDoNotSayWhatTheyAre(t *testing.T) {
	_, server := start(t, 1)
	for path, says := range map[string]bool{"/api/v1/pods": false, widgetsPath: true} {
		text, _ := fetch(t, server.URL+path, "")
		item := parsed(t, text)["items"].([]any)[0].(tree)
		if _, ok := item["kind"]; ok != says || item["metadata"] == nil {
			t.Errorf("%s: item %v", path, item)
		}
	}
}

func TestAnObjectInProtobufIsTheObjectInJSON(t *testing.T) {
	w, server := start(t, 1)
	o := w.byPlural("pods").slots[0].object
	url := server.URL + "/api/v1/namespaces/" + o.namespace + "/pods/" + o.name
	text, _ := fetch(t, url, "")
	raw, _ := fetch(t, url, protobufType+",application/json")
	same(t, "pod", decoded(t, raw), parsed(t, text))
	text, _ = fetch(t, url, jsonType+metaSuffix)
	raw, _ = fetch(t, url, protobufType+metaSuffix+","+jsonType+metaSuffix)
	same(t, "metadata of a pod", decoded(t, raw), parsed(t, text))
	if meta := parsed(t, text); meta["kind"] != metaKind || meta["spec"] != nil {
		t.Errorf("metadata is %v", meta)
	}
}

func TestListsOfMetadataAreTheSameInBothEncodings(t *testing.T) {
	_, server := start(t, 4)
	for _, path := range []string{"/api/v1/pods", widgetsPath, "/api/v1/configmaps"} {
		text, _ := fetch(t, server.URL+path, jsonType+listSuffix)
		raw, _ := fetch(t, server.URL+path, protobufType+listSuffix)
		list := parsed(t, text)
		if n := len(list["items"].([]any)); n != 4 || list["kind"] != metaKind+"List" {
			t.Errorf("%s: %d items of %v", path, n, list["kind"])
		}
		binary := decoded(t, raw)
		for _, item := range list["items"].([]any) { // what protobuf leaves out of items
			delete(item.(tree), "kind")
			delete(item.(tree), "apiVersion")
		}
		same(t, path, binary, list)
	}
}

func TestEventsInProtobufFollowTheObjectInJSON(t *testing.T) {
	for _, form := range []string{"", metaSuffix} {
		w, server := start(t, 3)
		c := w.byPlural("pods")
		response := open(t, server.URL+"/api/v1/pods?watch=1&sendInitialEvents=true&allowWatchBookmarks=true", protobufType+form)
		if got := response.Header.Get("Content-Type"); got != protobufType+";stream=watch" {
			t.Errorf("content type %s", got)
		}
		next := frames(t, response.Body)
		for range 3 {
			if kind, _ := next(); kind != "ADDED" {
				t.Errorf("initial event is %s", kind)
			}
		}
		kind, mark := next()
		if marks, _ := mark["metadata"].(tree)["annotations"].(tree); kind != "BOOKMARK" || marks["k8s.io/initial-events-end"] != "true" {
			t.Errorf("no end of the initial events: %s %v", kind, mark)
		}
		for i := range 5 {
			c.touch(i % 2)
			kind, changed := next()
			o := c.slots[i%2].object
			want := parsed(t, o.raw)
			if form != "" {
				want = tree{"kind": metaKind, "apiVersion": metaVersion, "metadata": want["metadata"]}
			}
			if kind != "MODIFIED" {
				t.Errorf("event is %s", kind)
			}
			same(t, "event", changed, want)
		}
		c.expire()
		if kind, status := next(); kind != "ERROR" || status["code"] != float64(410) {
			t.Errorf("expired with %s %v", kind, status)
		}
	}
}

func TestEventsOfMetadataFollowTheObject(t *testing.T) {
	w, server := start(t, 1)
	c := w.byPlural("widgets")
	response := open(t, server.URL+widgetsPath+"?watch=1&resourceVersion="+jsonNumber(w.version.Load()), jsonType+metaSuffix)
	c.touch(0)
	var e struct {
		Type   string
		Object tree
	}
	if err := json.NewDecoder(response.Body).Decode(&e); err != nil {
		t.Fatal(err)
	}
	want := parsed(t, c.slots[0].object.raw)["metadata"]
	same(t, "event", e.Object, tree{"kind": metaKind, "apiVersion": metaVersion, "metadata": want})
}

func TestAFormIsRefusedAsOnTheAPIServer(t *testing.T) {
	_, server := start(t, 1)
	for _, refused := range [][2]string{
		{widgetsPath, protobufType}, {"/api/v1/pods", jsonType + metaSuffix}, {"/api/v1/pods?watch=1", jsonType + listSuffix},
		{"/api/v1/pods", "text/html"},
	} {
		if response := open(t, server.URL+refused[0], refused[1]); response.StatusCode != http.StatusNotAcceptable {
			t.Errorf("%v answered with %d", refused, response.StatusCode)
		}
	}
}

func TestAChildSentInProtobufIsKept(t *testing.T) {
	_, server := start(t, 0)
	config := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "y"}}, Data: map[string]string{"k": "v"}}
	raw, _ := config.Marshal()
	request, _ := http.NewRequest("POST", server.URL+"/api/v1/namespaces/n/configmaps", bytes.NewReader(envelope("ConfigMap", "v1", raw)))
	request.Header.Set("Content-Type", protobufType)
	request.Header.Set("Accept", protobufType)
	recorder := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(recorder, request)
	made := decoded(t, recorder.Body.Bytes())
	if recorder.Code != http.StatusCreated || made["data"].(tree)["k"] != "v" || made["metadata"].(tree)["namespace"] != "n" {
		t.Errorf("answered %d %v", recorder.Code, made)
	}
}
