package kube

import (
	"context"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
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

// maxEventMessage is the API server's limit on an event's note.
const maxEventMessage = 1023

// Record records an event of a publication. An event that cannot be written is logged: what
// it says is in the log and the metrics already.
func (e *Events) Record(p published.Place, warning bool, reason, message string) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	now := metav1.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := e.client.CoreV1().Events(p.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: p.Name + "-", Namespace: p.Namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: p.Namespace, Name: p.Name},
		Reason:         reason, Message: strings.ToValidUTF8(message[:min(len(message), maxEventMessage)], ""), Type: kind,
		Source:         corev1.EventSource{Component: fieldManager},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		e.log.Debug("event not written", "reason", reason, "err", err)
	}
}
