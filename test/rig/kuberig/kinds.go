package kuberig

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
)

// kinds knows the kinds of objects that the API server serves. It reads their list at the first
// question, and again when a kind is not in the list.
type kinds struct {
	api discovery.DiscoveryInterface

	mu    sync.Mutex
	known meta.RESTMapper
}

// ofKind returns what is known of a kind.
func (k *kinds) ofKind(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	return k.find(func(known meta.RESTMapper) (*meta.RESTMapping, error) {
		return known.RESTMapping(kind.GroupKind(), kind.Version)
	})
}

// ofResource returns what is known of the kind of a resource, such as nodes or
// controllers.slinky.slurm.net.
func (k *kinds) ofResource(name string) (*meta.RESTMapping, error) {
	return k.find(func(known meta.RESTMapper) (*meta.RESTMapping, error) {
		kind, err := known.KindFor(schema.ParseGroupResource(name).WithVersion(""))
		if err != nil {
			return nil, err
		}
		return known.RESTMapping(kind.GroupKind(), kind.Version)
	})
}

func (k *kinds) find(look func(known meta.RESTMapper) (*meta.RESTMapping, error)) (*meta.RESTMapping, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known != nil {
		if found, err := look(k.known); !meta.IsNoMatchError(err) {
			return found, err
		}
	}
	groups, err := restmapper.GetAPIGroupResources(k.api)
	if err != nil {
		return nil, fmt.Errorf("read the kinds of the API server: %w", err)
	}
	k.known = restmapper.NewDiscoveryRESTMapper(groups)
	return look(k.known)
}

func namespaced(m *meta.RESTMapping) bool { return m.Scope.Name() == meta.RESTScopeNameNamespace }
