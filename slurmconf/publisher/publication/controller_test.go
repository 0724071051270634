package publication

import (
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

func TestLoader(t *testing.T) {
	none, one, other := inputs.Controller{}, inputs.Controller{Namespace: "slurm", Name: "a", Image: "slurmctld:25.11"}, inputs.Controller{Namespace: "slurm", Name: "b"}
	elsewhere := inputs.Controller{Namespace: "s2", Name: "a"}
	no := false
	tests := []struct {
		name string
		pub  Publication
		all  []inputs.Controller
		want Loader
		at   inputs.Controller
	}{
		{"the only one of the namespace", Publication{}, []inputs.Controller{elsewhere, one}, LoaderKnown, one},
		{"one of another namespace alone", Publication{}, []inputs.Controller{elsewhere}, LoaderAbsent, none},
		{"two, and none is named", Publication{SlurmNames: "slinky"}, []inputs.Controller{one, other}, LoaderUnknown, none},
		{"by nodes.slinky", Publication{Nodes: Selection{Slinky: "b"}}, []inputs.Controller{one, other}, LoaderKnown, other},
		{"by nodes.slinky, with names of the preset", Publication{SlurmNames: "slinky", Nodes: Selection{Slinky: "b"}}, []inputs.Controller{one, other}, LoaderKnown, other},
		{"by slurmNames", Publication{SlurmNames: "slinky:b"}, []inputs.Controller{one, other}, LoaderKnown, other},
		{"by its namespace and name", Publication{SlurmNames: "slinky:s2/a"}, []inputs.Controller{one, elsewhere}, LoaderKnown, elsewhere},
		{"one that does not exist", Publication{Nodes: Selection{Slinky: "c"}}, []inputs.Controller{one}, LoaderAbsent, inputs.Controller{Namespace: "slurm", Name: "c"}},
		{"the Nodes' names", Publication{SlurmNames: "short"}, []inputs.Controller{one}, LoaderKnown, one},
		{"nothing leads to a Slurm", Publication{SlurmNames: "short", Annotate: &no}, []inputs.Controller{one}, LoaderNone, none},
		{"no annotation, and Slurm's pods name the nodes", Publication{SlurmNames: "slinky", Annotate: &no}, []inputs.Controller{one}, LoaderKnown, one},
		{"no annotation, and Slurm is asked", Publication{Annotate: &no, Slurm: Slurm{Scontrol: "scontrol"}}, []inputs.Controller{one}, LoaderKnown, one},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := Compile([]Publication{tt.pub}, func(string) (inputs.Selector, error) { return nil, nil })
			if err != nil {
				t.Fatal(err)
			}
			if got, at := all[0].Loader(tt.all); got != tt.want || at != tt.at {
				t.Errorf("%d %s, want %d %s", got, at, tt.want, tt.at)
			}
		})
	}
}
