//go:build cgo

package nvml

import (
	"encoding/binary"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// recoveryOf reads what the driver says has to be done before the GPU works again. Only
// newer drivers say it.
func recoveryOf(d nvml.Device) (string, error) {
	field := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if err := failure(d.GetFieldValues(field)); err != nil {
		return "", err
	}
	number, err := valueOf(&field[0])
	if err != nil {
		return "", err
	}
	return topology.RecoveryOf(number), nil
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
