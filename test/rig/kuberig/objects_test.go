package kuberig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

const rackKind = `# A comment alone is no object.
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: racks.rig.example}
spec:
  group: rig.example
  names: {kind: Rack, listKind: RackList, plural: racks, singular: rack}
  scope: Cluster
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {rows: {type: integer}}}}}
`

const rackObjects = `apiVersion: rig.example/v1
kind: Rack
metadata: {name: r1}
rows: 3
---
apiVersion: v1
kind: ConfigMap
metadata: {name: r1}
data: {rack: r1}
`

// TestRealObjects holds that Objects does with files what kubectl does with them.
func TestRealObjects(t *testing.T) {
	t.Parallel()
	c := StartTest(t)
	o, ctx, dir := c.Objects(), t.Context(), t.TempDir()
	if err := o.ApplyText(ctx, rackObjects); err == nil || !strings.Contains(err.Error(), `no matches for kind "Rack"`) {
		t.Errorf("an object of no kind: %v", err)
	}
	second := filepath.Join(dir, "2.yaml")
	for name, text := range map[string]string{filepath.Join(dir, "1.yaml"): rackKind, second: rackObjects, filepath.Join(dir, "notes.md"): "no object"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := o.Apply(ctx, dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"an unknown field": "colour: red", "a field twice": "rows: 4\nrows: 4", "a wrong type": "rows: many"} {
		const rack = "apiVersion: rig.example/v1\nkind: Rack\nmetadata: {name: r1}\n"
		if err := o.ApplyText(ctx, rack+text); err == nil {
			t.Errorf("%s is applied", name)
		}
	}
	if err := o.Create(ctx, "apiVersion: rig.example/v1\nkind: Rack\nmetadata: {name: r2}\n", metav1.DryRunAll); err != nil {
		t.Error(err)
	}
	list, err := o.List(ctx, "racks,configmaps", "default")
	if err == nil {
		t.Errorf("racks of a namespace: %v", list)
	}
	list, err = o.List(ctx, "racks,configmaps", "")
	if err != nil || len(list.Items) < 2 || list.Items[0].GetName() != "r1" || list.Items[0].GetKind() != "Rack" || list.Items[1].GetKind() != "ConfigMap" {
		t.Errorf("racks and ConfigMaps: %v, %v", list, err)
	}

	// A finalizer keeps an object until it is taken away.
	if err := o.Patch(ctx, "racks.rig.example", "", "r1", `{"rows":4,"metadata":{"finalizers":["rig.example/keeps"]}}`); err != nil {
		t.Fatal(err)
	}
	deleted := make(chan error, 1)
	go func() { deleted <- o.DeleteFiles(ctx, second) }()
	await.Until(t, "mark of deletion", func() bool {
		now, err := o.Get(ctx, "racks", "", "r1")
		return err == nil && now.GetDeletionTimestamp() != nil
	})
	if err := o.Patch(ctx, "racks", "", "r1", `{"metadata":{"finalizers":null}}`); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	if now, err := o.Now(ctx, rackObjects); !apierrors.IsNotFound(err) {
		t.Errorf("deleted: %v, %v", now, err)
	}
	if err := o.Delete(ctx, "racks", "", "r1"); !apierrors.IsNotFound(err) {
		t.Errorf("deleted twice: %v", err)
	}
}
