package computedomain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
)

func TestJoinClaim(t *testing.T) {
	name := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "slurm", Name: name} }
	pods := []*record[podFacts]{
		{NamespacedName: name("holder"), facts: podFacts{uid: "u1", owner: imex.OwnerHolder, node: "n1", claims: []string{"of-holder", "shared"}}},
		{NamespacedName: name("slurmd"), facts: podFacts{uid: "u2", owner: imex.OwnerSlurmd, node: "n2", claims: []string{"by-hand", "shared"}}},
		{NamespacedName: name("anywhere"), facts: podFacts{uid: "u3", owner: imex.OwnerSlurmd, claims: []string{"of-anywhere", "shared"}}},
	}
	tests := []struct {
		name  string // of the claim
		facts claimFacts
		want  imex.Claim
	}{
		{"of-holder", claimFacts{domain: "d", allocated: true, node: "n1", reserved: []podRef{{"holder", "u1"}}},
			imex.Claim{Domain: "d", Node: "n1", Owner: imex.OwnerHolder, Pods: []string{"slurm/holder"}}},
		{"of-holder", claimFacts{}, imex.Claim{Node: "n1", Owner: imex.OwnerHolder, Waiting: "slurm/holder"}},
		{"reserved for a pod before the one of its name", claimFacts{allocated: true, reserved: []podRef{{"holder", "u0"}}}, imex.Claim{Pods: []string{"slurm/holder"}}},
		{"of-anywhere", claimFacts{}, imex.Claim{Owner: imex.OwnerSlurmd, Waiting: "slurm/anywhere"}},
		{"in use by a pod of no interest", claimFacts{allocated: true, node: "n9", reserved: []podRef{{"other", "u9"}}}, imex.Claim{Node: "n9", Owner: imex.OwnerOther, Pods: []string{"slurm/other"}}},
		{"by-hand", claimFacts{}, imex.Claim{Node: "n2", Owner: imex.OwnerSlurmd, Waiting: "slurm/slurmd"}},
		{"shared", claimFacts{}, imex.Claim{Node: "n1", Owner: imex.OwnerSlurmd, Waiting: "slurm/anywhere"}},
		{"allocated, and used by nobody", claimFacts{allocated: true, node: "n1"}, imex.Claim{Node: "n1"}},
		{"of no known pod", claimFacts{}, imex.Claim{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Namespace, tt.want.Name = "slurm", tt.name
			got := joinClaims([]*record[claimFacts]{{NamespacedName: name(tt.name), facts: tt.facts}}, pods)
			if diff := cmp.Diff([]imex.Claim{tt.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
