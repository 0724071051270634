package computedomain

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/again"
)

// watch keeps the facts of some objects while run runs.
type watch[T any] struct {
	what   string // for people
	health *apihealth.Health
	// read returns what to keep of an object, if anything.
	read func(obj any) (T, bool)
	// changed is called after a change of facts.
	changed func()
	// open returns a new informer of the objects.
	open func() cache.SharedIndexInformer

	mu     sync.Mutex
	store  cache.Store // nil while nothing is watched
	synced func() bool
}

// record takes the place of an object in an informer's store.
type record[T any] struct {
	types.NamespacedName
	version string
	facts   T
	keep    bool
}

func newRecord[T any](of metav1.Object, facts T, keep bool) *record[T] {
	return &record[T]{types.NamespacedName{Namespace: of.GetNamespace(), Name: of.GetName()}, of.GetResourceVersion(), facts, keep}
}

// GetObjectMeta implements metav1.ObjectMetaAccessor, for the informer.
func (r *record[T]) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, ResourceVersion: r.version}
}

func factsOf[T any](records []*record[T]) []T {
	facts := make([]T, len(records))
	for i, r := range records {
		facts[i] = r.facts
	}
	return facts
}

// newWatch returns a watch of what api lists, limited by the selectors that tweak sets.
func newWatch[T any, L runtime.Object](what string, health *apihealth.Health, of runtime.Object, api apihealth.Lister[L], tweak func(*metav1.ListOptions), read func(any) (T, bool), changed func()) *watch[T] {
	return &watch[T]{what: what, health: health, read: read, changed: changed, open: func() cache.SharedIndexInformer {
		return apihealth.NewInformer(health, what, of, api, tweak)
	}}
}

// run watches until ctx ends, and then forgets everything.
func (w *watch[T]) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.Discard()) // health logs troubles
	informer := w.open()
	_ = informer.SetTransform(w.slim) // fails only on a started informer
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.compare(nil, recordOf[T](obj)) },
		UpdateFunc: func(old, new any) { w.compare(recordOf[T](old), recordOf[T](new)) },
		DeleteFunc: func(obj any) { w.compare(recordOf[T](obj), nil) },
	}) // fails only on a stopped informer
	w.serve(informer.GetStore(), informer.HasSynced)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			w.changed()
		}
	})
	informer.RunWithContext(ctx)
	waiting.Wait()
	w.serve(nil, nil)
	w.health.Forget(w.what)
	w.changed()
}

func (w *watch[T]) serve(store cache.Store, synced func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store, w.synced = store, synced
}

// slim is the transform of the informer. Most objects of a cluster have no facts: a
// name is all that is kept of them.
func (w *watch[T]) slim(obj any) (any, error) {
	if recordOf[T](obj) != nil {
		return obj, nil
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	facts, keep := w.read(obj)
	return newRecord(object, facts, keep), nil
}

func recordOf[T any](obj any) *record[T] {
	if gone, is := obj.(cache.DeletedFinalStateUnknown); is {
		obj = gone.Obj
	}
	r, _ := obj.(*record[T])
	return r
}

// compare notes a change if the facts of an object differ.
func (w *watch[T]) compare(old, new *record[T]) {
	had, has := old != nil && old.keep, new != nil && new.keep
	if had != has || has && !reflect.DeepEqual(old.facts, new.facts) {
		w.changed()
	}
}

// all returns the objects with facts, in no order.
func (w *watch[T]) all() ([]*record[T], error) {
	w.mu.Lock()
	store, synced := w.store, w.synced
	w.mu.Unlock()
	if store == nil || !synced() {
		return nil, unread(w.what, w.health.Of(w.what))
	}
	objects := store.List()
	records := make([]*record[T], 0, len(objects))
	for _, obj := range objects {
		if r := recordOf[T](obj); r != nil && r.keep {
			records = append(records, r)
		}
	}
	return records, nil
}

// unread is the error that something has never been read. why is nil if unknown.
func unread(what string, why error) error {
	if why == nil {
		return errors.New(what + " not read yet")
	}
	return fmt.Errorf("%s not read yet: %w", what, why)
}

// driver watches whether NVIDIA's DRA driver serves ComputeDomains, so that they are watched
// as soon as it does. The driver's chart makes the DeviceClasses that it serves. The CRDs
// say nothing: GPU Operator 26.7 installs them with or without the driver.
type driver struct {
	classes *watch[string]
	wake    chan struct{}
}

// whatClasses are watched, for people.
const whatClasses = "the DeviceClasses of NVIDIA's DRA driver"

// newDriver watches the metadata of DeviceClasses only.
func newDriver(client metadata.Interface, health *apihealth.Health, changed func()) *driver {
	wake := make(chan struct{}, 1)
	return &driver{wake: wake, classes: newWatch(whatClasses, health, &metav1.PartialObjectMetadata{},
		client.Resource(resourcev1.SchemeGroupVersion.WithResource("deviceclasses")), all, readClass,
		func() {
			again.Notify(wake)
			changed()
		})}
}

// readClass returns the name of a DeviceClass that counts.
func readClass(obj any) (string, bool) {
	class, ok := obj.(metav1.Object)
	return class.GetName(), ok && (class.GetName() == channelClass || class.GetName() == daemonClass)
}

// known says how the driver serves ComputeDomains.
func (d *driver) known() (imex.Service, error) {
	found, err := d.classes.all()
	if apierrors.IsNotFound(err) { // of an API server without DeviceClasses
		return imex.NoService, nil
	}
	return serviceOf(factsOf(found)), err
}

// serviceOf returns how the driver serves, by the names of the DeviceClasses.
func serviceOf(classes []string) imex.Service {
	switch {
	case !slices.Contains(classes, channelClass):
		return imex.NoService
	case slices.Contains(classes, daemonClass):
		return imex.OwnDaemons
	}
	return imex.HostServices
}

// run calls while with a context that lasts as long as the driver starts daemons. It
// returns when ctx ends.
func (d *driver) run(ctx context.Context, while ...func(context.Context)) {
	var watching, running sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { d.classes.run(ctx) })
	end := context.CancelFunc(nil) // of what runs
	for ctx.Err() == nil {
		switch serves, _ := d.known(); {
		case serves == imex.OwnDaemons && end == nil:
			var serving context.Context
			serving, end = context.WithCancel(ctx)
			for _, f := range while {
				running.Go(func() { f(serving) })
			}
		case serves != imex.OwnDaemons && end != nil:
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

func all(*metav1.ListOptions) {}

func named(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.FieldSelector = metav1.ObjectNameField + "=" + name }
}
