package computedomain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
)

func TestJoinClaim(t *testing.T) {
	key := types.NamespacedName{Namespace: "slurm", Name: "c"}
	pods := map[types.NamespacedName]podFacts{
		{Namespace: "slurm", Name: "holder"}: {uid: "u1", owner: imex.OwnerHolder, node: "n1"},
		{Namespace: "slurm", Name: "slurmd"}: {uid: "u2", owner: imex.OwnerSlurmd, node: "n2", claims: []string{"c"}},
		{Namespace: "slurm", Name: "alone"}:  {uid: "u3", owner: imex.OwnerOther},
	}
	tests := []struct {
		name  string
		facts claimFacts
		want  imex.Claim
	}{
		{"in use", claimFacts{domain: "d", allocated: true, node: "n1", madeFor: podRef{"holder", "u1"}, reserved: []podRef{{"holder", "u1"}}},
			imex.Claim{Domain: "d", Node: "n1", Owner: imex.OwnerHolder, Pods: []string{"slurm/holder"}}},
		{"waiting for its node", claimFacts{madeFor: podRef{"holder", "u1"}}, imex.Claim{Node: "n1", Owner: imex.OwnerHolder, Waiting: "slurm/holder"}},
		{"of a pod before the one of this name", claimFacts{madeFor: podRef{"holder", "u0"}}, imex.Claim{}},
		{"waiting for any node", claimFacts{madeFor: podRef{"alone", "u3"}}, imex.Claim{Owner: imex.OwnerOther, Waiting: "slurm/alone"}},
		{"in use by a pod of no interest", claimFacts{allocated: true, node: "n9", reserved: []podRef{{"other", "u9"}}}, imex.Claim{Node: "n9", Owner: imex.OwnerOther, Pods: []string{"slurm/other"}}},
		{"made by hand, named by a pod", claimFacts{}, imex.Claim{Node: "n2", Owner: imex.OwnerSlurmd, Waiting: "slurm/slurmd"}},
		{"allocated, and used by nobody", claimFacts{allocated: true, node: "n1", madeFor: podRef{"holder", "u0"}}, imex.Claim{Node: "n1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Namespace, tt.want.Name = key.Namespace, key.Name
			got := joinClaims(map[types.NamespacedName]claimFacts{key: tt.facts}, pods)
			if diff := cmp.Diff([]imex.Claim{tt.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
