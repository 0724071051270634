package publication

import (
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

func TestLoader(t *testing.T) {
	none, one, other := plandoc.Location{}, plandoc.Location{Namespace: "slurm", Name: "a"}, plandoc.Location{Namespace: "slurm", Name: "b"}
	elsewhere := plandoc.Location{Namespace: "s2", Name: "a"}
	no := false
	tests := []struct {
		name string
		pub  Publication
		all  []plandoc.Location
		want Loader
		at   plandoc.Location
	}{
		{"the only one of the namespace", Publication{}, []plandoc.Location{elsewhere, one}, LoaderKnown, one},
		{"one of another namespace alone", Publication{}, []plandoc.Location{elsewhere}, LoaderAbsent, none},
		{"two, and none is named", Publication{SlurmNames: "slinky"}, []plandoc.Location{one, other}, LoaderUnknown, none},
		{"by nodes.slinky", Publication{Nodes: Selection{Slinky: "b"}}, []plandoc.Location{one, other}, LoaderKnown, other},
		{"by nodes.slinky, with names of the preset", Publication{SlurmNames: "slinky", Nodes: Selection{Slinky: "b"}}, []plandoc.Location{one, other}, LoaderKnown, other},
		{"by slurmNames", Publication{SlurmNames: "slinky:b"}, []plandoc.Location{one, other}, LoaderKnown, other},
		{"by its namespace and name", Publication{SlurmNames: "slinky:s2/a"}, []plandoc.Location{one, elsewhere}, LoaderKnown, elsewhere},
		{"one that does not exist", Publication{Nodes: Selection{Slinky: "c"}}, []plandoc.Location{one}, LoaderAbsent, plandoc.Location{Namespace: "slurm", Name: "c"}},
		{"the Nodes' names", Publication{SlurmNames: "short"}, []plandoc.Location{one}, LoaderKnown, one},
		{"nothing leads to a Slurm", Publication{SlurmNames: "short", Annotate: &no}, []plandoc.Location{one}, LoaderNone, none},
		{"no annotation, and Slurm's pods name the nodes", Publication{SlurmNames: "slinky", Annotate: &no}, []plandoc.Location{one}, LoaderKnown, one},
		{"no annotation, and Slurm is asked", Publication{Annotate: &no, Slurm: Slurm{Scontrol: "scontrol"}}, []plandoc.Location{one}, LoaderKnown, one},
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
