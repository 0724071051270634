package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
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

// KubeStore keeps the report as ConfigMap quoin-node-<node>. Kubernetes deletes it
// with the Node.
type KubeStore struct {
	client          kubernetes.Interface
	namespace, node string
	version         string // of the ConfigMap that Get saw, empty when there was none
}

// reportKey is the ConfigMap's key.
const reportKey = "report.json"

// NewKubeStore returns the store of a node in namespace.
func NewKubeStore(client kubernetes.Interface, namespace, node string) *KubeStore {
	return &KubeStore{client: client, namespace: namespace, node: node}
}

func (s *KubeStore) name() string { return "quoin-node-" + s.node }

// Get implements Store.
func (s *KubeStore) Get(ctx context.Context) ([]byte, error) {
	cm, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, s.name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.version = ""
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read stored report %s/%s: %w", s.namespace, s.name(), err)
	}
	s.version = cm.ResourceVersion
	return []byte(cm.Data[reportKey]), nil
}

// Put implements Store.
func (s *KubeStore) Put(ctx context.Context, report []byte) error {
	node, err := s.client.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("store report: read node %s: %w", s.node, err)
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.name(), Namespace: s.namespace, ResourceVersion: s.version,
			Labels:          map[string]string{"quoin.dev/kind": "node-report", "app.kubernetes.io/managed-by": "quoin"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Data: map[string]string{reportKey: string(report)},
	}
	api := s.client.CoreV1().ConfigMaps(s.namespace)
	if s.version == "" {
		_, err = api.Create(ctx, cm, metav1.CreateOptions{FieldManager: "quoin-agent"})
	} else {
		_, err = api.Update(ctx, cm, metav1.UpdateOptions{FieldManager: "quoin-agent"})
	}
	if err != nil {
		return fmt.Errorf("store report %s/%s: %w", s.namespace, s.name(), err)
	}
	return nil
}
