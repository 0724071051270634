//go:build cgo

package nvml

import (
	"encoding/binary"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// fields reads what the driver says has to be done before the GPU works again, which only
// newer drivers say, whether memory rows wait to be remapped, which a GPU with MIG does
// not say, and whether the memory has had uncorrected errors.
func (r *reader) fields() {
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}, {FieldId: nvml.FI_DEV_REMAPPED_PENDING}, {FieldId: nvml.FI_DEV_ECC_DBE_VOL_TOTAL}}
	if !r.fact("recovery action", failure(r.d.GetFieldValues(values))) {
		return
	}
	if number, err := valueOf(&values[0]); r.fact("recovery action", err) {
		r.gpu.Recovery = fabric.RecoveryOf(number)
	}
	if number, err := valueOf(&values[1]); r.fact("pending remapping of memory rows", err) && number != 0 {
		r.node.Problems = append(r.node.Problems, topology.RowsPendingProblem(r.gpu.UUID))
	}
	if number, err := valueOf(&values[2]); r.fact("uncorrected ECC errors", err) && number != 0 {
		r.node.Problems = append(r.node.Problems, topology.UncorrectedECCProblem(r.gpu.UUID))
	}
}

// valueOf returns the value of a field. Drivers answer INVALID_ARGUMENT for a field that
// is newer than they are.
func valueOf(v *nvml.FieldValue) (uint64, error) {
	ret := nvml.Return(int32(v.NvmlReturn)) //nolint:gosec // NVML's return codes fit
	if ret == nvml.ERROR_INVALID_ARGUMENT {
		return 0, errUnsupported
	}
	if err := failure(ret); err != nil {
		return 0, err
	}
	switch nvml.ValueType(v.ValueType) { //nolint:gosec // NVML's types fit
	case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
		return uint64(binary.NativeEndian.Uint32(v.Value[:])), nil
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return binary.NativeEndian.Uint64(v.Value[:]), nil
	default:
		return 0, errUnsupported
	}
}
