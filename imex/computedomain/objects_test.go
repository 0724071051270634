package computedomain

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/imex"
)

// listedText is a domain with a member, whose claim a holder has and a worker pod waits
// for another.
const listedText = `{"apiVersion":"v1","kind":"List","items":[
{"kind":"Node","metadata":{"name":"n1"}},
{"kind":"ComputeDomain","metadata":{"namespace":"quoin-node","name":"quoin","uid":"u1"},"spec":{"numNodes":0,"channel":{"allocationMode":"All","resourceClaimTemplate":{"name":"quoin-imex-channel"}}},
 "status":{"status":"NotReady","nodes":[{"name":"n1","ipAddress":"10.0.0.1","cliqueID":"c.1","index":3,"status":"Ready"}]}},
{"kind":"ComputeDomainClique","metadata":{"namespace":"driver","name":"u1.c.1"},"daemons":[{"nodeName":"n1","ipAddress":"10.0.0.1","cliqueID":"c.1","index":3,"status":"Ready"}]},
{"kind":"Pod","metadata":{"namespace":"quoin-node","name":"h","uid":"p1","labels":{"app.kubernetes.io/name":"quoin","app.kubernetes.io/component":"imex"}},
 "spec":{"nodeName":"n1","resourceClaims":[{"name":"channel","resourceClaimName":"a"}]},"status":{"phase":"Running"}},
{"kind":"Pod","metadata":{"namespace":"slurm","name":"other"},"spec":{"nodeName":"n1"}},
{"kind":"ResourceClaim","metadata":{"namespace":"quoin-node","name":"a"},"spec":{"devices":{"requests":[{"name":"channel","exactly":{"deviceClassName":"compute-domain-default-channel.nvidia.com"}}]}},
 "status":{"reservedFor":[{"resource":"pods","name":"h","uid":"p1"}],"allocation":{"devices":{"results":[{"request":"channel","driver":"compute-domain.nvidia.com","pool":"n1","device":"channel-0"}]}}}},
{"kind":"ResourceClaim","metadata":{"namespace":"quoin-node","name":"gpu"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu.nvidia.com"}}]}}}
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

// listOf adds the items of lists, one after the other.
func listOf(t *testing.T, config imex.Config, texts ...string) *imex.Observation {
	t.Helper()
	l := NewObjects(config)
	for _, text := range texts {
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			var head struct{ Kind string }
			if err := json.Unmarshal(item, &head); err != nil {
				t.Fatal(err)
			}
			if err := l.Add(head.Kind, item); err != nil {
				t.Fatal(err)
			}
		}
	}
	return l.Seen()
}

func TestObjects(t *testing.T) {
	member := imex.Member{Node: "n1", Address: "10.0.0.1", Clique: "c.1", Index: 3, Ready: true}
	want := &imex.Observation{
		Join: imex.JoinHolder, Why: "the pods of the DaemonSet quoin-imex hold channels", Domain: imex.Domain{Namespace: "quoin-node", Name: "quoin", UID: "u1"},
		Members: map[string]imex.Member{"n1": member}, Cliques: []imex.Clique{{Domain: "u1", ID: "c.1", Daemons: []imex.Member{member}}},
		Claims: []imex.Claim{{Namespace: "quoin-node", Name: "a", Node: "n1", Owner: imex.OwnerHolder, Pods: []string{"quoin-node/h"}}},
	}
	if diff := cmp.Diff(want, listOf(t, complete(t), listedText)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := NewObjects(complete(t)).Add("ComputeDomain", []byte(`{"metadata":7}`)); err == nil || !strings.Contains(err.Error(), "cannot unmarshal number") {
		t.Errorf("a broken object: %v", err)
	}
	config := complete(t)
	config.HostChannels = true
	if host := listOf(t, config, listedText); !host.HostChannels {
		t.Errorf("where jobs use the nodes' channels: %+v", host)
	}
	config.Join = imex.JoinSlurmd
	worker := `{"kind":"Pod","metadata":{"namespace":"slurm","name":"w","labels":{"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker"}},"spec":{"nodeName":"n2"}}`
	if slurm := listOf(t, config, listedText, `{"items":[`+worker+`]}`); !cmp.Equal(slurm.Workers, map[string]bool{"n2": true}) {
		t.Errorf("where worker pods claim: %+v", slurm)
	}
	if none := NewObjects(complete(t)).Seen(); none.Domain.UID != "" || none.Domain.Problem.Reason != imex.NoDomain {
		t.Errorf("an empty list: %+v", none)
	}
}

func FuzzObjects(f *testing.F) {
	f.Add("Pod", `{"spec":{"resourceClaims":[{}]}}`)
	f.Add("ComputeDomain", `{"status":{"nodes":[null]}}`)
	f.Fuzz(func(t *testing.T, kind, text string) {
		l := NewObjects(complete(t))
		_ = l.Add(kind, []byte(text))
		if l.Seen() == nil {
			t.Fatal("nothing is seen")
		}
	})
}
