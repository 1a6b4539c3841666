package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// message is a typed API object: what protobuf is made from, and what a client's protobuf is read into.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

var (
	magic        = []byte("k8s\x00")
	envelopeTail = []byte{3<<3 | 2, 0, 4<<3 | 2, 0} // no content encoding, no content type
)

// encoded is an object in a form; forms other than JSON are made when they are first asked for, and then kept up
// to date with each change. The lock is held.
func (c *collection) encoded(o *object, f form) *encoding {
	if f == asJSON {
		return &o.encoding
	}
	if o.others[f] == nil {
		made, err := c.encode(o.raw, f)
		if err != nil { // our own template, or what a client sent, does not fit its type
			panic(fmt.Sprintf("%s %s: %v", c.plural, o.key(), err))
		}
		o.others[f] = made
	}
	return o.others[f]
}

func (c *collection) encode(raw []byte, f form) (*encoding, error) {
	switch f {
	case asMetaJSON:
		meta := metadataOf(raw)
		text := make([]byte, 0, len(meta)+80)
		text = append(text, `{"kind":"`+metaKind+`","apiVersion":"`+metaVersion+`","metadata":`...)
		text = append(append(text, meta...), '}')
		o := object{encoding: encoding{raw: text}}
		o.locate()
		o.item = 0 // items of this list say what they are
		return &o.encoding, nil
	case asMetaProtobuf:
		var partial metav1.PartialObjectMetadata
		if err := json.Unmarshal(metadataOf(raw), &partial.ObjectMeta); err != nil {
			return nil, err
		}
		body, err := partial.Marshal()
		if err != nil {
			return nil, err
		}
		return locateProtobuf(envelope(metaKind, metaVersion, body), len(body)), nil
	default:
		m := c.message()
		if err := json.Unmarshal(raw, m); err != nil {
			return nil, err
		}
		body, err := m.Marshal()
		if err != nil {
			return nil, err
		}
		return locateProtobuf(envelope(c.kind, c.apiVersion(), body), len(body)), nil
	}
}

// metadataOf cuts the value of metadata out of an object whose first object value it is.
func metadataOf(raw []byte) []byte {
	start := bytes.Index(raw, []byte(`"metadata":`)) + len(`"metadata":`)
	depth, quoted := 0, false
	for i := start; i < len(raw); i++ {
		switch b := raw[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{':
			depth++
		case b == '}':
			if depth--; depth == 0 {
				return raw[start : i+1]
			}
		}
	}
	return []byte("{}")
}

// envelope wraps a message as the API server does: its magic number and runtime.Unknown{typeMeta, raw, "", ""}.
func envelope(kind, apiVersion string, body []byte) []byte {
	return append(append(envelopeHead(kind, apiVersion, len(body)), body...), envelopeTail...)
}

func envelopeHead(kind, apiVersion string, length int) []byte {
	typeMeta := 2 + len(apiVersion) + 2 + len(kind)
	out := make([]byte, 0, len(magic)+typeMeta+16)
	out = append(out, magic...)
	out = appendLength(out, 1, typeMeta)
	out = append(appendLength(out, 1, len(apiVersion)), apiVersion...)
	out = append(appendLength(out, 2, len(kind)), kind...)
	return appendLength(out, 2, length)
}

func appendLength(out []byte, field, length int) []byte {
	return binary.AppendUvarint(append(out, byte(field<<3|2)), uint64(length))
}

func uvarintLen(n int) int {
	width := 1
	for ; n >= 0x80; n >>= 7 {
		width++
	}
	return width
}

// locateProtobuf finds where the parts are that an event overwrites; the message of that length ends the envelope.
func locateProtobuf(raw []byte, length int) *encoding {
	e := &encoding{raw: raw, version: -1, generation: -1, stamp: -1, itemEnd: len(raw) - len(envelopeTail)}
	e.item = e.itemEnd - length
	fields(raw, e.item, e.itemEnd, func(field, start, end int) {
		if field != 1 { // metadata
			return
		}
		fields(raw, start, end, func(field, start, end int) {
			switch field {
			case 6: // resourceVersion
				e.version = start
			case 7: // generation
				e.generation = start
			case 12: // annotations: an entry is {1: key, 2: value}
				ours := false
				fields(raw, start, end, func(field, start, end int) {
					ours = ours || field == 1 && string(raw[start:end]) == stampKey
					if ours && field == 2 {
						e.stamp = start
					}
				})
			}
		})
	})
	if e.version >= 0 && raw[e.generation] == 0 { // kinds without a generation write a zero
		e.generation = -1
	}
	return e
}

// fields calls do with each field of a message and where its value starts and ends.
func fields(raw []byte, at, end int, do func(field, start, end int)) {
	for at < end {
		tag, n := binary.Uvarint(raw[at:end])
		at += n
		size := 0
		switch tag & 7 {
		case 0:
			_, size = binary.Uvarint(raw[at:end])
		case 1:
			size = 8
		case 2:
			length, n := binary.Uvarint(raw[at:end])
			at, size = at+n, int(length)
		case 5:
			size = 4
		}
		do(int(tag>>3), at, at+size)
		at += size
	}
}

// nextVarint adds one to a varint, in as many bytes as it has.
func nextVarint(raw []byte) {
	value, n := binary.Uvarint(raw)
	if uvarintLen(int(value+1)) == n {
		binary.PutUvarint(raw, value+1)
	}
}

// fromProtobuf is the JSON of an object that a client sent in protobuf.
func (c *collection) fromProtobuf(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, magic) || c.message == nil {
		return nil, fmt.Errorf("body of %s: %w", c.plural, errBad)
	}
	m := c.message()
	var err error
	fields(body, len(magic), len(body), func(field, start, end int) {
		if field == 2 && err == nil {
			err = m.Unmarshal(body[start:end])
		}
	})
	if err != nil {
		return nil, fmt.Errorf("body of %s: %v: %w", c.plural, err, errBad)
	}
	return json.Marshal(m)
}
