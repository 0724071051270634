package computedomain

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

// definition watches whether a custom resource is defined in the cluster, so that
// the resource itself is watched as soon as it is there.
type definition struct {
	crds *watch[struct{}]
	wake chan struct{}
}

// newDefinition watches the metadata of the resource's definition only.
func newDefinition(client metadata.Interface, what, name string, health *apihealth.Health, changed func()) *definition {
	wake := make(chan struct{}, 1)
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	return &definition{wake: wake, crds: newWatch(what, health, &metav1.PartialObjectMetadata{}, definitions, named(name),
		func(any) (struct{}, bool) { return struct{}{}, true },
		func() {
			notify(wake)
			changed()
		})}
}

// known reports whether the resource is defined. Its error is an *unreadError.
func (d *definition) known() (bool, error) {
	found, err := d.crds.all()
	return len(found) > 0, err
}

// run calls while with a context that lasts as long as the resource is defined. It
// returns when ctx ends.
func (d *definition) run(ctx context.Context, while ...func(context.Context)) {
	var watching, running sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { d.crds.run(ctx) })
	end := context.CancelFunc(nil) // of what runs
	for ctx.Err() == nil {
		switch is, _ := d.known(); {
		case is && end == nil:
			var defined context.Context
			defined, end = context.WithCancel(ctx)
			for _, f := range while {
				running.Go(func() { f(defined) })
			}
		case !is && end != nil:
			end()
			end = nil
			running.Wait()
		}
		select {
		case <-ctx.Done():
		case <-d.wake:
		}
	}
	if end != nil {
		end()
	}
	running.Wait()
}
