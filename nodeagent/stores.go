package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// DirStore keeps the report as DIR/reports/<node>.json.
type DirStore struct{ path string }

// NewDirStore returns the store of a node in dir.
func NewDirStore(dir, node string) *DirStore {
	return &DirStore{filepath.Join(dir, "reports", node+".json")}
}

// Get implements Store.
func (s *DirStore) Get(context.Context) ([]byte, error) {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read stored report: %w", err)
	}
	return data, nil
}

// Put implements Store. The report is not synced to disk: a report that a power failure
// takes is missed by its agent, which writes it again, and until then the publisher
// leaves the node where it is.
func (s *DirStore) Put(_ context.Context, report []byte) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return fmt.Errorf("store report: %w", err)
	}
	if err := atomicfile.Write(s.path, report); err != nil {
		return fmt.Errorf("store report: %w", err)
	}
	return nil
}

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
