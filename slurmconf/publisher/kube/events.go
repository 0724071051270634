package kube

import (
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// Events records what happens to a publication as events of its ConfigMap.
type Events struct {
	client kubernetes.Interface
	log    *slog.Logger
}

// NewEvents returns a recorder over client.
func NewEvents(client kubernetes.Interface, log *slog.Logger) *Events {
	return &Events{client: client, log: log}
}

// Record records an event of a publication.
func (e *Events) Record(p plandoc.Location, warning bool, reason, message string) {
	of := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: p.Namespace, Name: p.Name}
	apihealth.Record(e.client, e.log, of, fieldManager, warning, reason, message)
}
