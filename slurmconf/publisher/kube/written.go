package kube

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// writtenLasts is how long a Node is remembered that the watch never shows as it was
// written, for example because etcd was restored from a backup.
const writtenLasts = 10 * time.Minute

// writtenNodes are Nodes as the store has written them, until the watch shows as much. A
// watch may be late, and without them a Node would be written again meanwhile.
type writtenNodes struct {
	mu    sync.Mutex
	nodes map[string]writtenNode
}

type writtenNode struct {
	node *kubeNode
	at   time.Time
}

func (w *writtenNodes) add(n *kubeNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[n.Name] = writtenNode{n, time.Now()}
}

// newest returns the Node as it was written if the watched one is older, otherwise the
// watched one.
func (w *writtenNodes) newest(watched *kubeNode) *kubeNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	own, is := w.nodes[watched.Name]
	if !is {
		return watched
	}
	order, err := resourceversion.CompareResourceVersion(own.node.ResourceVersion, watched.ResourceVersion)
	if err != nil || order <= 0 || own.node.UID != watched.UID || time.Since(own.at) > writtenLasts {
		delete(w.nodes, watched.Name)
		return watched
	}
	return own.node
}
