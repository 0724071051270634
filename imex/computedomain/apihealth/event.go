package apihealth

import (
	"context"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// maxEventMessage is the API server's limit on an event's note.
const maxEventMessage = 1023

// Record writes an event of an object, in the object's namespace. An event that cannot be
// written is logged: what it says is in the log and the metrics already.
func Record(client kubernetes.Interface, log *slog.Logger, of corev1.ObjectReference, component string, warning bool, reason, message string) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	now := metav1.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := client.CoreV1().Events(of.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: of.Name + "-", Namespace: of.Namespace},
		InvolvedObject: of,
		Reason:         reason, Message: strings.ToValidUTF8(message[:min(len(message), maxEventMessage)], ""), Type: kind,
		Source:         corev1.EventSource{Component: component},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		log.Debug("event not written", "reason", reason, "err", err)
	}
}
