package publisher

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

func TestMembers(t *testing.T) {
	const clique = "8a61c302-0000-4000-8000-000000000001.7"
	parsed, err := topology.ParseClique(clique)
	if err != nil {
		t.Fatal(err)
	}
	inClique := &topology.Node{Name: "n", GPUs: []topology.GPU{{}}, Domain: topology.NVLinkDomain{Clique: parsed}, IMEX: &topology.IMEX{Channels: 1}}
	tests := []struct {
		name    string
		node    inputs.Node
		report  *topology.Node
		workers map[string]bool
		want    imex.Node
	}{
		{"of which nothing is known", inputs.Node{GPUs: 4}, nil, nil, imex.Node{}},
		{"by labels", inputs.Node{Labels: map[string]string{nodelabels.Count: "4", topology.CliqueLabel: clique}}, nil, nil, imex.Node{GPUs: true, CliqueLabel: clique}},
		{"by its capacity, labelled by the driver", inputs.Node{GPUs: 4, Labels: map[string]string{domainLabel: "u1"}}, nil, nil, imex.Node{GPUs: true, DomainLabel: "u1"}},
		{"without GPUs, with a clique's label", inputs.Node{Labels: map[string]string{topology.CliqueLabel: clique}}, nil, nil, imex.Node{CliqueLabel: clique}},
		{"by its report", inputs.Node{}, inClique, nil, imex.Node{GPUs: true, Fabric: imex.FabricClique, Clique: clique, Local: inClique.IMEX}},
		{"with a worker pod", inputs.Node{}, inClique, map[string]bool{"n": true}, imex.Node{GPUs: true, Fabric: imex.FabricClique, Clique: clique, Local: inClique.IMEX, Worker: true}},
		{"without a worker pod", inputs.Node{Workers: []inputs.Worker{{Node: "n"}}}, nil, map[string]bool{"m": true}, imex.Node{NoWorker: true}},
		{"without a worker pod, as all are", inputs.Node{}, nil, map[string]bool{}, imex.Node{NoWorker: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.Name, tt.want.Name = "n", "n"
			got := Members(&inputs.Snapshot{Nodes: []inputs.Node{tt.node}, Reports: map[string]*topology.Node{"n": tt.report}}, tt.workers)
			if diff := cmp.Diff(map[string]imex.Node{"n": tt.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
