package kube

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWrittenNodes shows a Node as it was written until the watch is as new.
func TestWrittenNodes(t *testing.T) {
	node := func(uid types.UID, version string) *kubeNode {
		return &kubeNode{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid, ResourceVersion: version}}
	}
	own := node("a", "100")
	for name, tt := range map[string]struct {
		watched *kubeNode
		shows   bool
	}{
		"the watch is late":           {node("a", "99"), true},
		"the watch shows the write":   {node("a", "100"), false},
		"somebody has written since":  {node("a", "101"), false},
		"the Node was made again":     {node("b", "99"), false},
		"a version that is no number": {node("a", "x"), false},
		"a version with fewer digits": {node("a", "9"), true},
	} {
		w := writtenNodes{nodes: map[string]writtenNode{}}
		w.add(own)
		if got := w.newest(tt.watched); (got == own) != tt.shows {
			t.Errorf("%s: the written Node is shown: %v, want %v", name, got == own, tt.shows)
		}
		if _, kept := w.nodes["n1"]; kept != tt.shows {
			t.Errorf("%s: the written Node is kept: %v, want %v", name, kept, tt.shows)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := writtenNodes{nodes: map[string]writtenNode{}}
		w.add(own)
		time.Sleep(writtenLasts)
		if got := w.newest(node("a", "99")); got != own {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Second)
		if got := w.newest(node("a", "99")); got == own {
			t.Error("a Node that the watch never shows is not forgotten")
		}
	})
}
