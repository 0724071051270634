package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// fabricsAgain is the time between two looks at the files of fabricFiles.
const fabricsAgain = 10 * time.Second

// watchFabrics watches the ConfigMaps of fabricFiles.
func (s *Store) watchFabrics(entries []string) {
	watched := map[string]cache.SharedIndexInformer{}
	for _, entry := range entries {
		selector, isMaps := strings.CutPrefix(entry, inputs.FabricMaps)
		if !isMaps {
			continue
		}
		informer := newInformer(s.health, fabricMaps(selector), &corev1.ConfigMap{}, s.Client.CoreV1().ConfigMaps(s.Namespace),
			func(o *metav1.ListOptions) { o.LabelSelector = selector }, fabricOf)
		watched[selector] = informer
		s.informers = append(s.informers, informer)
	}
	s.fabrics = cables.NewReader(entries, func(selector string) ([]cables.Part, error) {
		informer := watched[selector]
		if err := s.health.Of(fabricMaps(selector)); err != nil {
			return nil, err
		}
		if !informer.HasSynced() {
			return nil, errors.New("the API server has not answered yet")
		}
		var found []*fabricMap
		for _, obj := range informer.GetStore().List() {
			if f, ok := obj.(*fabricMap); ok {
				found = append(found, f)
			}
		}
		return parts(found), nil
	})
}

// fabricMaps names the ConfigMaps of a selector for people.
func fabricMaps(selector string) string { return "ConfigMaps " + selector }

// ListFabrics lists the ConfigMaps of fabricFiles, for those who do not watch them.
func ListFabrics(ctx context.Context, client kubernetes.Interface, namespace string) cables.Maps {
	return func(selector string) ([]cables.Part, error) {
		list, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("list ConfigMaps in namespace %s: %w", namespace, err)
		}
		var found []*fabricMap
		for i := range list.Items {
			found = append(found, fabricOf(&list.Items[i]))
		}
		return parts(found), nil
	}
}

// fabricMap is what is kept of a ConfigMap with a part of the text of a fabric.
type fabricMap struct {
	metav1.ObjectMeta
	data [][]byte // in the order of the keys
}

func fabricOf(cm *corev1.ConfigMap) *fabricMap {
	f := &fabricMap{ObjectMeta: metaOf(cm)}
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		f.data = append(f.data, []byte(cm.Data[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		f.data = append(f.data, cm.BinaryData[key])
	}
	return f
}

// parts returns the parts of the text in the order of the ConfigMaps' names.
func parts(found []*fabricMap) (out []cables.Part) {
	slices.SortFunc(found, func(a, b *fabricMap) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range found {
		for _, data := range f.data {
			out = append(out, cables.Part{Version: f.Name + "/" + string(f.UID) + "/" + f.ResourceVersion, Data: data})
		}
	}
	return out
}
