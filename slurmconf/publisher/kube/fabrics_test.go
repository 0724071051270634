package kube

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/await"
)

// TestFabricMaps reads a text from two ConfigMaps whose API is refused at first.
func TestFabricMaps(t *testing.T) {
	const whole = "#\n# Topology file: generated on Wed Aug  6 16:11:23 2025\n#\n\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x2c5eab0300000100\n" +
		"switchguid=0x2c5eab0300000100(2c5eab0300000100)\nSwitch\t65 \"S-2c5eab0300000100\"\t\t# \"MF0;leaf:MQM9701/U1\" enhanced port 0 lid 73 lmc 0\n" +
		"[1]\t\"H-e09d730300000010\"[1](e09d730300000010) \t\t# \"n1 mlx5_0\" lid 7 4xNDR\n\nvendid=0x2c9\ndevid=0x1021\nsysimgguid=0xe09d730300000010\n" +
		"caguid=0xe09d730300000010\nCa\t1 \"H-e09d730300000010\"\t\t# \"n1 mlx5_0\"\n[1](e09d730300000010) \t\"S-2c5eab0300000100\"[1]\t\t# lid 9 lmc 0 \"MF0;leaf:MQM9701/U1\" lid 73 4xNDR\n"
	named := func(name, version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "quoin-system", ResourceVersion: version}
	}
	list := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.ConfigMap{
		{ObjectMeta: named("part-1", "6"), BinaryData: map[string][]byte{"b": []byte(whole[150:])}, Data: map[string]string{"a": whole[100:150]}},
		{ObjectMeta: named("part-0", "5"), Data: map[string]string{"text": whole[:100]}},
	}}
	var permitted atomic.Bool
	refuses := func(r *http.Request) int {
		if !permitted.Load() || r.URL.Query().Get("labelSelector") != "quoin.dev/fabric=a" || r.URL.Path != "/api/v1/namespaces/quoin-system/configmaps" {
			return http.StatusForbidden
		}
		return 0
	}
	rc, client := fakeAPI(t, refuses, func(*http.Request) any { return &list })
	const entry = "configmaps:quoin.dev/fabric=a"
	store := New(client, setsOf(t, rc), reportsOf(t, rc), "quoin-system", compile(t, publication.Publication{FabricFiles: []string{entry}}), slog.New(slog.DiscardHandler))
	run(t, store.Run)
	var text inputs.FabricText
	until := func(what string, is func() bool) {
		t.Helper()
		await.Until(t, what, func() bool {
			text = store.fabrics.Read()[entry][0]
			return is()
		}, func() string { return text.Problem })
	}
	until("the API server refuses", func() bool {
		return text.Fabric == nil && strings.Contains(text.Problem, "get configmaps")
	})
	permitted.Store(true)
	until("the parts are one text, in the order of names and keys", func() bool { return text.Problem == "" && text.Fabric != nil && text.Fabric.Switches() == 1 })
	listed := ListFabrics(t.Context(), client, "quoin-system")
	if parts, err := listed("quoin.dev/fabric=a"); err != nil || len(parts) != 3 || string(parts[0].Data) != whole[:100] {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	if _, err := listed("other=a"); err == nil || !strings.Contains(err.Error(), "list ConfigMaps in namespace quoin-system: ") {
		t.Errorf("%v", err)
	}
}
