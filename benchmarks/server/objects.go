package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// The numbers that change from event to event have a fixed width, so that an event is a copy and three overwrites.
const (
	firstVersion    = 1_000_000_000
	firstGeneration = 1_000_000
	noTime          = "0000000000000000000"
	stampKey        = "bench.steersman.dev/sent-at"
	sentAt          = `"` + stampKey + `":"`
)

// encoding is an object in one form. raw is never changed once it is published; a change makes a new slice.
type encoding struct {
	raw []byte
	// Where in raw the resource version, the generation and the sent-at stamp start; -1: absent.
	version, generation, stamp int
	// The part of raw that is an item of a list: built-in kinds leave out kind and version there.
	item, itemEnd int
}

// object is one API object: its JSON, and the other forms that somebody has asked for.
type object struct {
	namespace, name string
	encoding
	status int // where in raw the value of status starts; -1: absent
	others [forms]*encoding

	applied *application
}

func (o *object) versionText() string { return string(o.raw[o.version : o.version+10]) }

func (o *object) key() string { return o.namespace + "/" + o.name }

// locate finds the offsets of a fresh JSON encoding. Items of lists of built-in kinds start behind kind and version.
func (o *object) locate() {
	after := func(marker string) int {
		if i := bytes.Index(o.raw, []byte(marker)); i >= 0 {
			return i + len(marker)
		}
		return -1
	}
	o.version = after(`"resourceVersion":"`)
	o.generation = after(`"generation":`)
	o.stamp = after(sentAt)
	o.status = -1
	if i := bytes.LastIndex(o.raw, []byte(`,"status":{`)); i >= 0 {
		o.status = i + len(`,"status":`)
	}
	o.item, o.itemEnd = 0, len(o.raw)
	if bytes.HasPrefix(o.raw, []byte(`{"kind":"`)) {
		o.item = bytes.Index(o.raw, []byte(`","metadata":`)) + len(`",`)
	}
}

// renumbered puts a version into an object that is not published yet.
func (o *object) renumbered(version uint64) *object {
	overwrite(o.raw, o.version, version, 10)
	return o
}

// touched is the object as a writer of its spec leaves it: a new version, the next generation, stamped with now.
func (o *object) touched(version, now uint64) *object {
	next := &object{namespace: o.namespace, name: o.name, status: o.status, applied: o.applied, encoding: o.encoding.touched(version, now, asJSON)}
	for f, e := range o.others {
		if e != nil {
			changed := e.touched(version, now, form(f))
			next.others[f] = &changed
		}
	}
	return next
}

func (e encoding) touched(version, now uint64, f form) encoding {
	e.raw = bytes.Clone(e.raw)
	overwrite(e.raw, e.version, version, 10)
	if e.generation >= 0 {
		if f.binary() {
			nextVarint(e.raw[e.generation:])
		} else if g, err := strconv.ParseUint(string(e.raw[e.generation:e.generation+7]), 10, 64); err == nil {
			overwrite(e.raw, e.generation, g+1, 7)
		}
	}
	if e.stamp >= 0 {
		overwrite(e.raw, e.stamp, now, len(noTime))
	}
	return e
}

func overwrite(raw []byte, at int, value uint64, width int) {
	for i := at + width - 1; i >= at; i-- {
		raw[i] = byte('0' + value%10)
		value /= 10
	}
}

// generate makes count objects of a kind. Names, uids, addresses, images, environments and times are random, so
// that neither compression nor interning is flattered; shapes and lengths are those of real clusters.
// With namespaces, they are dealt out to bench-0, bench-1, and so on; without, to the namespaces of 20 teams.
func generate(kind *kindInfo, from templates, count int, seed uint64, namespaces int) []*object {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0x5bd1e995))}
	objects := make([]*object, 0, count)
	seen := make(map[string]bool, count)
	for len(objects) < count {
		g.identity()
		switch {
		case !kind.namespaced:
			g.namespace = ""
		case namespaces > 0:
			g.namespace = "bench-" + strconv.Itoa(len(objects)%namespaces)
		}
		if seen[g.namespace+"/"+g.name] {
			continue
		}
		seen[g.namespace+"/"+g.name] = true
		o := &object{namespace: g.namespace, name: g.name, encoding: encoding{raw: g.expand(from.pick(g.rng))}}
		o.locate()
		objects = append(objects, o)
	}
	return objects
}

type generator struct {
	rng                                                  *rand.Rand
	namespace, noun, app, name, hash, uid, node, ip, dig string
	replicas                                             int
	created                                              time.Time
}

var (
	adjectives = strings.Fields("able amber brisk calm coral crisp dusty eager early fleet frosty gentle grand hasty hazel icy jolly keen late lively lunar mellow mighty misty noble olive pale plain proud quick quiet rapid royal rustic shiny silent solar stark steady swift tidy urban vivid warm wild witty young zesty")
	nouns      = strings.Fields("account archive audit auth basket billing broker cache cart catalog checkout cluster console cron delivery digest email engine export feed fraud gateway graph import index ingest invoice ledger ledger mailer metrics notifier order parser payment planner portal pricing profile proxy queue ranker relay report router scheduler search session shipping stock stream tenant tracker trainer upload user vault voucher wallet webhook worker")
	teams      = strings.Fields("atlas borealis cascade delta everest falcon glacier horizon iris juniper kestrel lagoon meridian nimbus orion pacific quartz ridge sierra tundra")
	registries = strings.Fields("registry.example.com ghcr.example.io quay.example.io harbor.internal.example eu-docker.example.dev")
	letters    = "bcdfghjklmnpqrstvwxz2456789"
	hexes      = "0123456789abcdef"
	base64s    = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
)

func (g *generator) pick(words []string) string { return words[g.rng.IntN(len(words))] }

func (g *generator) from(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[g.rng.IntN(len(alphabet))]
	}
	return string(b)
}

func (g *generator) newUID() string {
	h := g.from(hexes, 32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-" + "89ab"[g.rng.IntN(4):][:1] + h[17:20] + "-" + h[20:]
}

func (g *generator) identity() {
	g.namespace = "team-" + g.pick(teams)
	g.noun = g.pick(nouns)
	g.app = g.pick(adjectives) + "-" + g.noun
	g.hash = g.from(letters, 10)
	g.name = g.app + "-" + g.hash + "-" + g.from(letters, 5)
	g.uid = g.newUID()
	g.node = fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", g.rng.IntN(64), g.rng.IntN(256), g.rng.IntN(256))
	g.ip = fmt.Sprintf("10.%d.%d.%d", 64+g.rng.IntN(64), g.rng.IntN(256), g.rng.IntN(256))
	g.dig = g.from(hexes, 64)
	g.replicas = 1 + g.rng.IntN(20)
	g.created = time.Unix(1_770_000_000+int64(g.rng.IntN(8_000_000)), 0).UTC()
}

// expand fills the holes of a template. Tokens that name the object are the same each time; the others are drawn anew.
func (g *generator) expand(template string) []byte {
	var b bytes.Buffer
	b.Grow(len(template) + len(template)/4)
	for {
		before, rest, found := strings.Cut(template, "<<")
		b.WriteString(before)
		if !found {
			return b.Bytes()
		}
		token, after, _ := strings.Cut(rest, ">>")
		b.WriteString(g.value(token))
		template = after
	}
}

func (g *generator) value(token string) string {
	switch token {
	case "ns":
		return g.namespace
	case "name":
		return g.name
	case "noun":
		return g.noun
	case "app":
		return g.app
	case "hash":
		return g.hash
	case "uid":
		return g.uid
	case "node":
		return g.node
	case "ip":
		return g.ip
	case "digest":
		return g.dig
	case "replicas":
		return strconv.Itoa(g.replicas)
	case "created":
		return g.created.Format(time.RFC3339)
	case "newuid":
		return g.newUID()
	case "later":
		return g.created.Add(time.Duration(1+g.rng.IntN(90)) * time.Second).Format(time.RFC3339)
	case "image":
		return fmt.Sprintf("%s/%s/%s:%d.%d.%d-%s", g.pick(registries), g.pick(teams), g.pick(nouns), g.rng.IntN(5), g.rng.IntN(30), g.rng.IntN(30), g.from(hexes, 7))
	case "host":
		return g.pick(nouns) + "-" + g.from(letters, 4) + "." + g.pick(teams) + ".svc.cluster.local"
	case "word":
		return g.pick(nouns)
	case "team":
		return g.pick(teams)
	case "port":
		return strconv.Itoa(1024 + g.rng.IntN(40000))
	case "milli": // below one core, and memory below one gibibyte: above, the API server writes other units
		return strconv.Itoa(25*(1+g.rng.IntN(39))) + "m"
	case "mebi":
		return strconv.Itoa(16*(1+g.rng.IntN(63))) + "Mi"
	case "n":
		return strconv.Itoa(g.rng.IntN(1000))
	case "hex8":
		return g.from(hexes, 8)
	case "hex16":
		return g.from(hexes, 16)
	case "hex64":
		return g.from(hexes, 64)
	case "suffix":
		return g.from(letters, 5)
	case "small":
		return strconv.Itoa(1 + g.rng.IntN(9))
	case "release":
		return fmt.Sprintf("%d.%d.%d", g.rng.IntN(5), g.rng.IntN(30), g.rng.IntN(10))
	case "lines":
		return g.configLines(100 * 1024)
	}
	if what, size, ok := strings.Cut(token, ":"); ok { // so many bytes, give or take a quarter
		n, _ := strconv.Atoi(size)
		n = n*3/4 + g.rng.IntN(n/2)
		if what == "lines" {
			return g.configLines(n)
		}
		return g.from(base64s, (n+3)/4*4)
	}
	panic("unknown token " + token)
}

// configLines is the text of a configuration file, escaped for JSON.
func (g *generator) configLines(size int) string {
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, `%s.%s.%s = \"%s-%d\"\n`, g.pick(nouns), g.pick(adjectives), g.pick(nouns), g.from(letters, 12), g.rng.IntN(100000))
	}
	return b.String()
}
