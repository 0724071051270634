package publisher

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

// newInformer returns an informer of what the API lists, whose troubles are
// told to health.
func newInformer[L runtime.Object](client kubernetes.Interface, health *apihealth.Health, what string, of runtime.Object, api apihealth.Lister[L], tweak func(*metav1.ListOptions)) cache.SharedIndexInformer {
	lw := apihealth.ListWatch(health, what, api, tweak, func(error) bool { return false })
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), of, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { // fails only on a started informer
		health.Ended(what, err)
	})
	return informer
}

// because ends a sentence with what is wrong now, if anything is.
func because(h *apihealth.Health) string {
	if all := h.String(); all != "" {
		return ": " + all
	}
	return ""
}
