package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
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

// GPUDriver is the name under which NVIDIA's DRA driver lists GPUs.
const GPUDriver = "gpu.nvidia.com"

// sliceWatch watches the ResourceSlices of NVIDIA's driver, if the API server has that API
// (Kubernetes 1.34 and newer) and the publisher has the right to list them. Sites without that
// driver give no such right.
type sliceWatch struct {
	client   kubernetes.Interface
	health   *apihealth.Health
	log      *slog.Logger
	informer cache.SharedIndexInformer
	absent   atomic.Bool // there is no such API, or no right
}

// The pauses between two questions for one ResourceSlice: while the API or the right is absent, and
// after an error.
const (
	sliceAbsentPause = 10 * time.Minute
	sliceErrorPause  = 5 * time.Second
)

func newSliceWatch(client kubernetes.Interface, health *apihealth.Health, log *slog.Logger) *sliceWatch {
	w := &sliceWatch{client: client, health: health, log: log}
	w.informer = newInformer(health, "resource slices", &resourcev1.ResourceSlice{}, client.ResourceV1().ResourceSlices(),
		func(o *metav1.ListOptions) {
			o.FieldSelector = resourcev1.ResourceSliceSelectorDriver + "=" + GPUDriver
		},
		func(s *resourcev1.ResourceSlice) *kubeSlice { return &kubeSlice{metaOf(s), SliceOf(s)} })
	return w
}

// run waits for the API and the right, and then watches.
func (w *sliceWatch) run(ctx context.Context) {
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		_, err := w.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err == nil:
			w.absent.Store(false)
			w.informer.RunWithContext(ctx)
			return
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			if !w.absent.Load() {
				w.log.Info("ResourceSlices are not read: the API server has none, or the publisher has no right to list them", "err", err)
			}
			w.absent.Store(true)
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

// ReadSlice reads the spec of the ResourceSlice of a name as kubectl prints it. It returns nil if
// the ResourceSlice is not one of NVIDIA's driver.
func ReadSlice(name string, spec []byte) (*inputs.Slice, error) {
	s := resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := json.Unmarshal(spec, &s.Spec); err != nil {
		return nil, fmt.Errorf("ResourceSlice %s: %w", name, err)
	}
	if s.Spec.Driver != GPUDriver {
		return nil, nil
	}
	out := SliceOf(&s)
	return &out, nil
}

// SliceOf returns the part of a ResourceSlice that is used.
func SliceOf(s *resourcev1.ResourceSlice) inputs.Slice {
	pool := &s.Spec.Pool
	out := inputs.Slice{Name: s.Name, Pool: pool.Name, Generation: pool.Generation, Count: pool.ResourceSliceCount}
	if s.Spec.NodeName != nil {
		out.Node = *s.Spec.NodeName
	}
	for i := range s.Spec.Devices {
		out.Devices = append(out.Devices, deviceOf(&s.Spec.Devices[i]))
	}
	return out
}

// minorName matches the names of devices that newer releases of the driver call by the
// minor number. Those releases publish no attribute minor.
var minorName = regexp.MustCompile(`^gpu-([0-9]{1,4})(?:-mig-.*)?$`)

// deviceOf reads the attributes that NVIDIA's driver gives a device. Releases that
// called devices by NVML's index published the attributes index and minor.
func deviceOf(d *resourcev1.Device) inputs.Device {
	text := func(key resourcev1.QualifiedName) string {
		if a := d.Attributes[key]; a.StringValue != nil {
			return *a.StringValue
		}
		return ""
	}
	out := inputs.Device{Name: d.Name, Kind: text("type"), UUID: text("uuid"), Parent: text("parentUUID"), Product: text("productName"), Profile: text("profile"),
		PCIBusID: text("resource.kubernetes.io/pciBusID"), Minor: -1}
	minor, hasMinor := d.Attributes["minor"]
	_, hasIndex := d.Attributes["index"]
	if hasMinor && minor.IntValue != nil && *minor.IntValue >= 0 && *minor.IntValue <= 9999 {
		out.Minor = int(*minor.IntValue)
	} else if m := minorName.FindStringSubmatch(d.Name); m != nil && !hasMinor && !hasIndex {
		out.Minor, _ = strconv.Atoi(m[1]) // digits only
	}
	capacity := d.Capacity["memory"]
	if memory := capacity.Value.Value(); memory > 0 {
		out.MemoryMiB = uint64(memory) >> 20
	}
	return out
}
