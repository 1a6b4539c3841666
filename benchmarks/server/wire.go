package main

import (
	"encoding/binary"
	"fmt"
	"mime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// form is how an object is written: whole or its metadata alone, in JSON or in protobuf.
type form int

const (
	asJSON form = iota
	asProtobuf
	asMetaJSON
	asMetaProtobuf
	forms
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	metaVersion  = "meta.k8s.io/v1"
	metaKind     = "PartialObjectMetadata"
)

func (f form) binary() bool   { return f == asProtobuf || f == asMetaProtobuf }
func (f form) metadata() bool { return f == asMetaJSON || f == asMetaProtobuf }

// contentType is what an answer in this form says of itself, as the API server does.
func (f form) contentType(watch bool) []string {
	switch {
	case f.binary() && watch:
		return []string{protobufType + ";stream=watch"}
	case f.binary():
		return []string{protobufType}
	default:
		return contentType
	}
}

// negotiate is the first form of an Accept header that this kind has. A list has to be asked for as
// PartialObjectMetadataList, an object or a watch as PartialObjectMetadata. Custom resources have no protobuf.
func (c *collection) negotiate(accept string, list bool) (form, error) {
	if accept == "" || accept == jsonType {
		return asJSON, nil
	}
	if known, ok := c.accepted.Load(asked{accept, list}); ok {
		return known.(form), nil
	}
	f, err := c.acceptable(accept, list)
	if err == nil {
		c.accepted.Store(asked{accept, list}, f)
	}
	return f, err
}

type asked struct {
	accept string
	list   bool
}

func (c *collection) acceptable(accept string, list bool) (form, error) {
	for one := range strings.SplitSeq(accept, ",") {
		media, parameters, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		var f form
		switch media {
		case jsonType, "application/*", "*/*":
			f = asJSON
		case protobufType:
			f = asProtobuf
		default:
			continue
		}
		switch parameters["as"] {
		case "":
			if f == asJSON || c.message != nil {
				return f, nil
			}
		case metaKind, metaKind + "List":
			if list != (parameters["as"] == metaKind+"List") {
				return 0, fmt.Errorf("%s of %s: %w", parameters["as"], c.plural, errNotAcceptable)
			}
			return f + asMetaJSON, nil
		}
	}
	return 0, fmt.Errorf("only application/json and, of built-in kinds, %s: %w", protobufType, errNotAcceptable)
}

// typeOf is the kind and the version that an object of the collection carries in a form.
func (c *collection) typeOf(f form) (kind, apiVersion string) {
	if f.metadata() {
		return metaKind, metaVersion
	}
	return c.kind, c.apiVersion()
}

// appendEvent appends a watch event to a queue: a line of JSON, or a frame with its length before it.
func appendEvent(queue []byte, kind string, e *encoding, f form) []byte {
	if f.binary() {
		return appendFrame(queue, kind, e.raw)
	}
	queue = append(queue, `{"type":"`...)
	queue = append(queue, kind...)
	queue = append(queue, `","object":`...)
	queue = append(queue, e.raw...)
	return append(queue, '}', '\n')
}

// appendFrame appends meta.k8s.io/v1 WatchEvent{type, object: RawExtension{raw}} behind four bytes of length.
func appendFrame(queue []byte, kind string, raw []byte) []byte {
	object := 1 + uvarintLen(len(raw)) + len(raw)
	queue = binary.BigEndian.AppendUint32(queue, uint32(1+uvarintLen(len(kind))+len(kind)+1+uvarintLen(object)+object))
	queue = appendLength(queue, 1, len(kind))
	queue = append(queue, kind...)
	queue = appendLength(queue, 2, object)
	queue = appendLength(queue, 1, len(raw))
	return append(queue, raw...)
}

// appendGone appends the event by which the API server says that a watch cannot go on.
func appendGone(queue []byte, f form) []byte {
	const message = "too old resource version"
	if !f.binary() {
		return fmt.Appendf(queue, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"%s","reason":"Expired","code":410}}`+"\n", message)
	}
	status := metav1.Status{Status: metav1.StatusFailure, Message: message, Reason: metav1.StatusReasonExpired, Code: 410}
	raw, _ := status.Marshal()
	return appendFrame(queue, "ERROR", envelope("Status", "v1", raw))
}

// appendBookmark appends a bookmark; initialEnd marks the one that ends the initial events.
func (c *collection) appendBookmark(queue []byte, version uint64, initialEnd bool, f form) []byte {
	kind, apiVersion := c.typeOf(f)
	if f.binary() {
		meta := metav1.ObjectMeta{ResourceVersion: fmt.Sprint(version)}
		if initialEnd {
			meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		raw, _ := meta.Marshal()
		return appendFrame(queue, "BOOKMARK", envelope(kind, apiVersion, append(appendLength(nil, 1, len(raw)), raw...)))
	}
	annotations := ""
	if initialEnd {
		annotations = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	}
	return fmt.Appendf(queue, `{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"%s}}}`+"\n",
		kind, apiVersion, version, annotations)
}
