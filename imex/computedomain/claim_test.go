package computedomain

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func opaque(driver, text string) resourcev1.DeviceConfiguration {
	return resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(text)}}}
}

func exactly(class string) []resourcev1.DeviceRequest {
	return []resourcev1.DeviceRequest{{Name: "channel", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class}}}
}

const channelConfig = `{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig","domainID":"d-1","allocationMode":"All"}`

func TestReadClaim(t *testing.T) {
	inSpec := func(c resourcev1.DeviceConfiguration) []resourcev1.DeviceClaimConfiguration {
		return []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: c}}
	}
	results := []resourcev1.DeviceRequestAllocationResult{{Driver: "gpu.nvidia.com", Pool: "gpus"}, {Driver: driverName, Pool: "n2", Device: "channel-0"}}
	tests := []struct {
		name  string
		claim resourcev1.ResourceClaim
		want  claimFacts
		keep  bool
	}{
		{"by its class", resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: exactly(channelClass)}}}, claimFacts{}, true},
		{"by one of several classes", resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{FirstAvailable: []resourcev1.DeviceSubRequest{{DeviceClassName: "x"}, {DeviceClassName: channelClass}}}}}}}, claimFacts{}, true},
		{"by its configuration", resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: exactly("a-class-of-the-site"), Config: inSpec(opaque(driverName, channelConfig))}}}, claimFacts{domain: "d-1"}, true},
		{"by its class's configuration", resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Config: []resourcev1.DeviceAllocationConfiguration{{DeviceConfiguration: opaque(driverName, channelConfig)}}, Results: results}}}},
			claimFacts{domain: "d-1", allocated: true, node: "n2"}, true},
		{"allocated and reserved", resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "u", Controller: new(true)}}},
			Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: exactly(channelClass), Config: inSpec(opaque(driverName, channelConfig))}},
			Status: resourcev1.ResourceClaimStatus{ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}},
				Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: results}}},
		}, claimFacts{domain: "d-1", allocated: true, node: "n2", reserved: []podRef{{"p", "u"}}}, true},
		{"a daemon's", resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: exactly("compute-domain-daemon.nvidia.com"),
			Config: inSpec(opaque(driverName, `{"kind":"ComputeDomainDaemonConfig","domainID":"d-1"}`))}}}, claimFacts{}, false},
		{"another driver's", resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: exactly("gpu.nvidia.com"),
			Config: inSpec(opaque("gpu.nvidia.com", channelConfig))}}}, claimFacts{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, keep := readClaim(&tt.claim)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(claimFacts{}, podRef{})); diff != "" || keep != tt.keep {
				t.Errorf("kept %v (-want +got):\n%s", keep, diff)
			}
		})
	}
}

func FuzzParseChannelConfig(f *testing.F) {
	for _, text := range []string{channelConfig, `{"kind":"ComputeDomainDaemonConfig","domainID":"d"}`, `{}`, `null`, `[`, `{"kind":"ComputeDomainChannelConfig","domainID":7}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		domain, ok := parseChannelConfig(raw)
		if !ok {
			if domain != "" {
				t.Errorf("refused, with domain %q", domain)
			}
			return
		}
		again, err := json.Marshal(map[string]string{"kind": "ComputeDomainChannelConfig", "domainID": domain})
		if err != nil {
			t.Fatal(err)
		}
		if back, ok := parseChannelConfig(again); !ok || back != domain {
			t.Errorf("%q became %q, %v", domain, back, ok)
		}
	})
}
