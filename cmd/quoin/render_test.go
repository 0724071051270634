package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestJoinProblems(t *testing.T) {
	got := joinProblems([]topology.Problem{
		{Node: "a2", Reason: "TierLabelsMissing", Message: "m"},
		{Node: "a1", Reason: "NoGresLine", Message: "m"},
		{Reason: "TierLabelsMissing", Message: "m"},
		{Node: "a10", Reason: "TierLabelsMissing", Message: "m"},
		{Node: "a1", Reason: "TierLabelsMissing", Message: "m"},
		{Node: "a1", Reason: "TierLabelsMissing", Message: "another"},
	})
	want := []topology.Problem{
		{Node: "a[1-2,10]", Reason: "TierLabelsMissing", Message: "m"},
		{Node: "a1", Reason: "NoGresLine", Message: "m"},
		{Reason: "TierLabelsMissing", Message: "m"},
		{Node: "a1", Reason: "TierLabelsMissing", Message: "another"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
