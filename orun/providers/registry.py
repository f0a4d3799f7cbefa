"""ONNX Runtime's execution providers, and the options that each reads.

ONNX Runtime ignores most misspelt options, with a message on stderr at best.

The providers are those of release 1.31, the last release of onnxruntime-gpu; 1.32 has added none. Options were read
from the sources (`onnxruntime/core/providers/*/`, `onnxruntime_pybind_state.cc`) and, for CUDA and TensorRT, checked
against the libraries of the release. QNN's options are those of its plug-in, onnxruntime-qnn 2.7. Options that take
addresses of a C program's memory are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from orun.providers.spec import ProviderSpec

PROVIDERS: Mapping[str, ProviderSpec] = {
    "CPUExecutionProvider": ProviderSpec({}),  # its arena is the session option `enable_cpu_mem_arena`
    "CUDAExecutionProvider": ProviderSpec(
        {
            "device_id": "int",
            "gpu_mem_limit": "int",
            "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
            "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
            "cudnn_conv_use_max_workspace": "bool",
            "cudnn_conv1d_pad_to_nc1d": "bool",
            "do_copy_in_default_stream": "bool",
            "enable_cuda_graph": "bool",
            "enable_cudnn": "bool",
            "enable_skip_layer_norm_strict_mode": "bool",
            "fuse_conv_bias": "bool",
            "prefer_nhwc": "bool",
            "sdpa_kernel": "int",
            "tunable_op_enable": "bool",
            "tunable_op_tuning_enable": "bool",
            "tunable_op_max_tuning_duration_ms": "int",
            "use_ep_level_unified_stream": "bool",
            "use_tf32": "bool",
        },
        libraries=("nvidia-cudnn-cu13", "nvidia-cublas", "nvidia-cuda-runtime"),
        nvidia_gpu=True,
    ),
    "TensorrtExecutionProvider": ProviderSpec(
        {
            "device_id": "int",
            "trt_auxiliary_streams": "int",
            "trt_bf16_enable": "bool",
            "trt_build_heuristics_enable": "bool",
            "trt_builder_optimization_level": "int",
            "trt_context_memory_sharing_enable": "bool",
            "trt_cuda_graph_enable": "bool",
            "trt_detailed_build_log": "bool",
            "trt_dla_core": "int",
            "trt_dla_enable": "bool",
            "trt_dump_ep_context_model": "bool",
            "trt_dump_subgraphs": "bool",
            "trt_engine_cache_enable": "bool",
            "trt_engine_cache_path": "str",
            "trt_engine_cache_prefix": "str",
            "trt_engine_decryption_enable": "bool",
            "trt_engine_decryption_lib_path": "str",
            "trt_engine_hw_compatible": "bool",
            "trt_ep_context_embed_mode": "int",
            "trt_ep_context_file_path": "str",
            "trt_extra_plugin_lib_paths": "str",
            "trt_force_sequential_engine_build": "bool",
            "trt_force_timing_cache": "bool",
            "trt_fp16_enable": "bool",
            "trt_int8_calibration_table_name": "str",
            "trt_int8_enable": "bool",
            "trt_int8_use_native_calibration_table": "bool",
            "trt_layer_norm_fp32_fallback": "bool",
            "trt_load_user_initializer": "bool",
            "trt_max_partition_iterations": "int",
            "trt_max_workspace_size": "int",
            "trt_min_subgraph_size": "int",
            "trt_onnx_model_folder_path": "str",
            "trt_op_types_to_exclude": "str",
            "trt_preview_features": "str",
            "trt_profile_max_shapes": "str",
            "trt_profile_min_shapes": "str",
            "trt_profile_opt_shapes": "str",
            "trt_sparsity_enable": "bool",
            "trt_tactic_sources": "str",
            "trt_timing_cache_enable": "bool",
            "trt_timing_cache_path": "str",
            "trt_weight_stripped_engine_enable": "bool",
        },
        libraries=("nvidia-cudnn-cu13", "nvidia-cuda-runtime"),
        nvidia_gpu=True,
    ),
    "NvTensorRTRTXExecutionProvider": ProviderSpec(
        {
            "device_id": "int",
            "enable_cuda_graph": "bool",
            "nv_detailed_build_log": "bool",
            "nv_dump_subgraphs": "bool",
            "nv_max_shared_mem_size": "int",
            "nv_max_workspace_size": "int",
            "nv_multi_profile_enable": "bool",
            "nv_profile_index": "int",
            "nv_profile_max_shapes": "str",
            "nv_profile_min_shapes": "str",
            "nv_profile_opt_shapes": "str",
            "nv_runtime_cache_path": "str",
            "nv_use_external_data_initializer": "bool",
        },
        nvidia_gpu=True,
    ),
    "OpenVINOExecutionProvider": ProviderSpec(
        {
            "cache_dir": "str",
            "device_id": "str",
            "device_luid": "str",
            "device_type": "str",
            "disable_dynamic_shapes": "bool",
            "enable_causallm": "bool",
            "enable_opencl_throttling": "bool",
            "enable_qdq_optimizer": "bool",
            "layout": "str",
            "load_config": "str",
            "model_priority": ("LOW", "MEDIUM", "HIGH", "DEFAULT"),
            "num_of_threads": "int",
            "num_streams": "int",
            "precision": ("FP32", "FP16", "ACCURACY"),
            "reshape_input": "str",
        },
        libraries=("openvino", "onnxruntime-openvino", "onnxruntime-ep-openvino"),
    ),
    "CoreMLExecutionProvider": ProviderSpec(
        {
            "AllowLowPrecisionAccumulationOnGPU": "flag",
            "EnableOnSubgraphs": "flag",
            "MLComputeUnits": ("ALL", "CPUAndGPU", "CPUAndNeuralEngine", "CPUOnly"),
            "ModelCacheDirectory": "str",
            "ModelFormat": ("MLProgram", "NeuralNetwork"),
            "ProfileComputePlan": "flag",
            "RequireStaticInputShapes": "flag",
            "SpecializationStrategy": ("Default", "FastPrediction"),
        }
    ),
    "QNNExecutionProvider": ProviderSpec(
        {
            "backend_path": "str",
            "backend_type": ("cpu", "genie", "gpu", "htp", "saver", "ir"),
            "device_id": "int",
            "disable_file_mapped_weights": "flag",
            "dump_json_qnn_graph": "flag",
            "dump_qnn_ep_input_graph": "flag",
            "dump_qnn_ep_input_graph_dir": "str",
            "dump_qnn_ir_dlc": "flag",
            "dump_qnn_ir_dlc_dir": "str",
            "enable_block_quant_weight_optimization": "flag",
            "enable_dx12_shared_memory_allocator": "flag",
            "enable_framework_op_trace": "flag",
            "enable_htp_fp16_clamp_overflow": "flag",
            "enable_htp_fp16_precision": "flag",
            "enable_htp_graph_splitting": "flag",
            "enable_htp_monolithic_lstm": "flag",
            "enable_htp_prepare_and_load": "flag",
            "enable_htp_prepare_only": "flag",
            "enable_htp_shared_memory_allocator": "flag",
            "enable_htp_spill_fill_buffer": "flag",
            "enable_vtcm_backup_buffer_sharing": "flag",
            "extended_udma": "flag",
            "framework_op_trace_dir": "str",
            "genie_log_level": "str",
            "htp_arch": "str",
            "htp_bf16_enable": "flag",
            "htp_graph_finalization_optimization_mode": "int",
            "htp_graph_splitting_num_prepare_threads": "int",
            "htp_performance_mode": (
                "burst",
                "balanced",
                "default",
                "high_performance",
                "high_power_saver",
                "low_balanced",
                "low_power_saver",
                "power_saver",
                "extreme_power_saver",
                "sustained_high_performance",
            ),
            "htp_reused_io_limit_mb": "int",
            "htp_share_resource_optimization": "flag",
            "json_qnn_graph_dir": "str",
            "num_graph_prepare_threads": "int",
            "offload_graph_io_quantization": "flag",
            "op_affinity": "str",
            "op_packages": "str",
            "profiling_file_path": "str",
            "profiling_level": ("off", "basic", "detailed", "optrace"),
            "qnn_context_priority": (
                "low",
                "normal_low",
                "normal",
                "normal_high",
                "high",
                "high_plus",
                "critical",
                "critical_plus",
            ),
            "qnn_ir_backend_path": "str",
            "qnn_saver_path": "str",
            "rpc_control_latency": "int",
            "skip_backend_op_validation": "flag",
            "skip_qnn_version_check": "flag",
            "soc_model": "str",
            "vtcm_mb": "str",  # with several processors, a number for each: `8,4`
        },
        libraries=("onnxruntime-qnn",),
    ),
    "DmlExecutionProvider": ProviderSpec(
        {
            "device_filter": ("any", "gpu", "npu"),
            "device_id": "int",
            "disable_metacommands": "bool",
            "performance_preference": ("default", "high_performance", "minimum_power"),
        }
    ),
    "MIGraphXExecutionProvider": ProviderSpec(
        {
            "device_id": "int",
            "migraphx_arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
            "migraphx_bf16_enable": "bool",
            "migraphx_exhaustive_tune": "bool",
            "migraphx_fp16_enable": "bool",
            "migraphx_fp8_enable": "bool",
            "migraphx_int8_calibration_table_name": "str",
            "migraphx_int8_enable": "bool",
            "migraphx_int8_use_native_calibration_table": "bool",
            "migraphx_mem_limit": "int",
            "migraphx_model_cache_dir": "str",
        }
    ),
    "CANNExecutionProvider": ProviderSpec(
        {
            "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
            "device_id": "int",
            "dump_graphs": "bool",
            "dump_om_model": "bool",
            "enable_cann_graph": "bool",
            "enable_cann_subgraph": "bool",
            "npu_mem_limit": "int",
            "op_select_impl_mode": ("high_precision", "high_performance"),
            "optypelist_for_implmode": "str",
            "precision_mode": "str",
        }
    ),
    "XnnpackExecutionProvider": ProviderSpec(
        {
            "intra_op_num_threads": "int",
        }
    ),
    "DnnlExecutionProvider": ProviderSpec(
        {
            "num_of_threads": "int",
        }
    ),
    "ACLExecutionProvider": ProviderSpec(
        {
            "enable_fast_math": "bool",
        }
    ),
    "NnapiExecutionProvider": ProviderSpec({}),
    "VSINPUExecutionProvider": ProviderSpec({}),
    "RknpuExecutionProvider": ProviderSpec({}),
    "AzureExecutionProvider": ProviderSpec({}),
    "VitisAIExecutionProvider": ProviderSpec(),
    "WebGpuExecutionProvider": ProviderSpec(),
    "WebNNExecutionProvider": ProviderSpec(),
    "JsExecutionProvider": ProviderSpec(),
}
"""Each provider by its name."""
