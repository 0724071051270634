package kube

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// sliceWatch watches the ResourceSlices of NVIDIA's driver, if the API server has that
// API (Kubernetes 1.34 and newer).
type sliceWatch struct {
	client   kubernetes.Interface
	health   *apihealth.Health
	log      *slog.Logger
	informer cache.SharedIndexInformer
	absent   atomic.Bool // the API server does not have the API
}

// The pauses between two questions for the API: while the API is absent, and after an
// error.
const (
	sliceAbsentPause = 10 * time.Minute
	sliceErrorPause  = 5 * time.Second
)

func newSliceWatch(client kubernetes.Interface, health *apihealth.Health, log *slog.Logger) *sliceWatch {
	w := &sliceWatch{client: client, health: health, log: log}
	w.informer = apihealth.NewInformer(health, "resource slices", &resourcev1.ResourceSlice{}, client.ResourceV1().ResourceSlices(),
		func(o *metav1.ListOptions) {
			o.FieldSelector = resourcev1.ResourceSliceSelectorDriver + "=" + inputs.GPUDriver
		})
	_ = w.informer.SetTransform(slimSlice) // fails only on a started informer
	return w
}

// run waits for the API and then watches.
func (w *sliceWatch) run(ctx context.Context) {
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		_, err := w.client.Discovery().ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String())
		switch {
		case err == nil:
			w.absent.Store(false)
			w.informer.RunWithContext(ctx)
			return
		case apierrors.IsNotFound(err):
			if !w.absent.Swap(true) {
				w.log.Warn("the API server has no ResourceSlices, continuing without them", "api", resourcev1.SchemeGroupVersion.String())
			}
			pause = sliceAbsentPause
		default:
			w.health.Note(ctx, "resource slices", err)
			pause = sliceErrorPause
		}
	}
}

// synced reports whether what there is has been read.
func (w *sliceWatch) synced() bool { return w.absent.Load() || w.informer.HasSynced() }

// slices returns the known ResourceSlices.
func (w *sliceWatch) slices() []*inputs.Slice {
	var out []*inputs.Slice
	for _, obj := range w.informer.GetStore().List() {
		if s, ok := obj.(*kubeSlice); ok {
			out = append(out, &s.Slice)
		}
	}
	return out
}

// kubeSlice is what is kept of a ResourceSlice.
type kubeSlice struct {
	metav1.ObjectMeta
	Slice inputs.Slice
}

// slimSlice keeps of a ResourceSlice what a Snapshot is made from.
func slimSlice(obj any) (any, error) {
	s, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return obj, nil
	}
	return &kubeSlice{metav1.ObjectMeta{Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}, SliceOf(s)}, nil
}

// SliceOf returns the part of a ResourceSlice that is kept.
func SliceOf(s *resourcev1.ResourceSlice) inputs.Slice {
	spec := inputs.SliceSpec{Driver: s.Spec.Driver, Pool: inputs.SlicePool{Name: s.Spec.Pool.Name, Generation: s.Spec.Pool.Generation, Count: s.Spec.Pool.ResourceSliceCount}}
	if s.Spec.NodeName != nil {
		spec.NodeName = *s.Spec.NodeName
	}
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		device := inputs.Device{Name: d.Name, Attributes: make(map[string]inputs.Attribute, len(d.Attributes))}
		for key, a := range d.Attributes {
			device.Attributes[string(key)] = inputs.Attribute{String: a.StringValue, Int: a.IntValue}
		}
		if memory, ok := d.Capacity["memory"]; ok {
			device.Capacity.Memory.Value = inputs.Bytes(memory.Value.Value())
		}
		spec.Devices = append(spec.Devices, device)
	}
	return inputs.SliceOf(s.Name, &spec)
}
