package publisher

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

// newInformer returns an informer of what the API lists, whose troubles are
// told to health.
func newInformer[L runtime.Object](client kubernetes.Interface, health *apihealth.Health, what string, of runtime.Object, api apihealth.Lister[L], tweak func(*metav1.ListOptions)) cache.SharedIndexInformer {
	return apihealth.NewInformer(health, what, of, api, tweak)
}

// because returns ": " and what is wrong now, or "".
func because(h *apihealth.Health) string {
	if all := h.String(); all != "" {
		return ": " + all
	}
	return ""
}
