package nodeagent

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// KubeStore keeps the report as the NodeReport of the node. Kubernetes deletes it with the
// Node.
type KubeStore struct {
	client  kubernetes.Interface
	reports *nodereport.Client
	node    string
	version string // of the NodeReport that Get saw, empty when there was none
}

// NewKubeStore returns the store of a node.
func NewKubeStore(client kubernetes.Interface, reports *nodereport.Client, node string) *KubeStore {
	return &KubeStore{client: client, reports: reports, node: node}
}

// Get implements Store. An unreadable report is not empty, so that it is replaced.
func (s *KubeStore) Get(ctx context.Context) ([]byte, error) {
	stored, err := s.reports.Get(ctx, s.node)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		s.version = ""
		return nil, nil
	}
	s.version = stored.ResourceVersion
	if stored.Err != nil {
		return []byte(stored.Err.Error()), nil //nolint:nilerr // the unreadable report is the answer
	}
	return topology.EncodeReport(stored.Node)
}

// Put implements Store.
func (s *KubeStore) Put(ctx context.Context, report []byte) error {
	node, err := s.client.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("store report: read node %s: %w", s.node, err)
	}
	return s.reports.Put(ctx, report, metav1.ObjectMeta{
		Name: s.node, ResourceVersion: s.version,
		Labels:          map[string]string{"app.kubernetes.io/managed-by": "quoin"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
	}, "quoin-agent")
}
