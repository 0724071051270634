package computedomain

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

// defined is whether a custom resource is defined in the cluster. That is
// watched too, so that it is used as soon as it comes.
type defined struct {
	name   string
	source *source[struct{}]
	wake   chan struct{}
	watch  followed
}

// newDefined reads nothing but the metadata of the definition, and calls changed
// when it comes or goes.
func newDefined(client metadata.Interface, what, name string, health *apihealth.Health, changed func()) *defined {
	d := &defined{name: name, wake: make(chan struct{}, 1)}
	d.source = newSource(func(any) (struct{}, bool) { return struct{}{}, true }, func() {
		notify(d.wake)
		changed()
	})
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	d.watch = newFollowed(what, &metav1.PartialObjectMetadata{}, definitions, named(name), d.source, health)
	return d
}

// known reports whether the resource is defined, and whether that has been read.
func (d *defined) known() (is, read bool) {
	d.source.mu.Lock()
	defer d.source.mu.Unlock()
	return len(d.source.facts) > 0, d.source.synced
}

// run follows what there is to follow while the resource is defined, and calls
// forget when it is no longer.
func (d *defined) run(ctx context.Context, health *apihealth.Health, forget []func(), what func() []followed) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { d.watch.follow(ctx, health) })
	for {
		if is, _ := d.known(); is {
			d.followAll(ctx, health, what())
			for _, f := range forget {
				f()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
	}
}

// followAll returns when the resource is no longer defined or ctx ends.
func (d *defined) followAll(ctx context.Context, health *apihealth.Health, what []followed) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i := range what {
		running.Go(func() { what[i].follow(ctx, health) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		if is, _ := d.known(); !is {
			return
		}
	}
}
