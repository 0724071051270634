package computedomain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/imex"
)

// listedText is a domain with a member, whose claim a holder has and a worker pod waits
// for another.
const listedText = `{"apiVersion":"v1","kind":"List","items":[
{"kind":"Node","metadata":{"name":"n1"}},
{"kind":"ComputeDomain","metadata":{"namespace":"quoin-system","name":"quoin","uid":"u1"},"spec":{"numNodes":0,"channel":{"allocationMode":"All","resourceClaimTemplate":{"name":"quoin-imex-channel"}}},
 "status":{"status":"NotReady","nodes":[{"name":"n1","ipAddress":"10.0.0.1","cliqueID":"c.1","index":3,"status":"Ready"}]}},
{"kind":"ComputeDomainClique","metadata":{"namespace":"driver","name":"u1.c.1"},"daemons":[{"nodeName":"n1","ipAddress":"10.0.0.1","cliqueID":"c.1","index":3,"status":"Ready"}]},
{"kind":"Pod","metadata":{"namespace":"quoin-system","name":"h","uid":"p1","labels":{"app.kubernetes.io/name":"quoin","app.kubernetes.io/component":"imex"}},
 "spec":{"nodeName":"n1","resourceClaims":[{"name":"channel","resourceClaimName":"a"}]},"status":{"phase":"Running"}},
{"kind":"Pod","metadata":{"namespace":"slurm","name":"other"},"spec":{"nodeName":"n1"}},
{"kind":"ResourceClaim","metadata":{"namespace":"quoin-system","name":"a"},"spec":{"devices":{"requests":[{"name":"channel","exactly":{"deviceClassName":"compute-domain-default-channel.nvidia.com"}}]}},
 "status":{"reservedFor":[{"resource":"pods","name":"h","uid":"p1"}],"allocation":{"devices":{"results":[{"request":"channel","driver":"compute-domain.nvidia.com","pool":"n1","device":"channel-0"}]}}}},
{"kind":"ResourceClaim","metadata":{"namespace":"quoin-system","name":"gpu"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu.nvidia.com"}}]}}}
],"metadata":{"resourceVersion":""}}
`

func complete(t *testing.T) imex.Config {
	t.Helper()
	c, err := imex.Config{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReadList(t *testing.T) {
	member := imex.Member{Node: "n1", Address: "10.0.0.1", Clique: "c.1", Index: 3, Ready: true}
	want := &imex.Seen{
		Join: imex.JoinHolder, Domain: imex.Domain{Namespace: "quoin-system", Name: "quoin", UID: "u1"},
		Members: map[string]imex.Member{"n1": member}, Cliques: []imex.Clique{{Domain: "u1", ID: "c.1", Daemons: []imex.Member{member}}},
		Claims: []imex.Claim{{Namespace: "quoin-system", Name: "a", Node: "n1", Owner: imex.OwnerHolder, Pods: []string{"quoin-system/h"}}},
	}
	for _, text := range []string{listedText, listedText + `{"kind":"List","items":[]}`} {
		got, err := ReadList("list", strings.NewReader(text), complete(t))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	for text, err := range map[string]string{
		"":                              "list: empty: kubectl prints nothing where a kind is missing",
		"[]":                            "[ where a list begins",
		`{"kind":"Node"}`:               "no items",
		`{"items":{}}`:                  "no list",
		`{"items":[{"kind":7}]}`:        "items[0]: json: cannot unmarshal number",
		listedText[:len(listedText)/2]:  "the text ends early",
		`{"items":[{"kind":"Pod"}],`:    "the text ends early",
		`{"items":[]} {"items":[{]}`:    "invalid character",
		"error: the server is not here": "invalid character",
	} {
		if _, got := ReadList("list", strings.NewReader(text), complete(t)); got == nil || !strings.Contains(got.Error(), err) {
			t.Errorf("%.40q: %v, want %q", text, got, err)
		}
	}
	config := complete(t)
	config.HostChannels = true
	if host, err := ReadList("list", strings.NewReader(listedText), config); err != nil || !host.HostChannels {
		t.Errorf("where jobs use the nodes' channels: %+v, %v", host, err)
	}
	config.Join = imex.JoinSlurmd
	worker := `{"kind":"Pod","metadata":{"namespace":"slurm","name":"w","labels":{"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker"}},"spec":{"nodeName":"n2"}}`
	slurm, err := ReadList("list", strings.NewReader(listedText+`{"items":[`+worker+`]}`), config)
	if err != nil || !cmp.Equal(slurm.Workers, map[string]bool{"n2": true}) {
		t.Errorf("where worker pods claim: %+v, %v", slurm, err)
	}
	none, err := ReadList("list", strings.NewReader(`{"items":[]}`), complete(t))
	if err != nil || none.Domain.UID != "" || none.Domain.Problem.Reason != imex.ReasonNoDomain {
		t.Errorf("an empty list: %+v, %v", none, err)
	}
}

func FuzzReadList(f *testing.F) {
	f.Add(listedText)
	f.Add(`{"items":[{"kind":"Pod","spec":{"resourceClaims":[{}]}},{"kind":"ComputeDomain","status":{"nodes":[null]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if seen, err := ReadList("list", strings.NewReader(text), complete(t)); (err == nil) != (seen != nil) {
			t.Fatal(seen, err)
		}
	})
}
