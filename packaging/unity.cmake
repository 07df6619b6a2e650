# NFSRDMA_UNITY: several sources of a target are compiled as one, which includes them. CMake's own UNITY_BUILD names them by
# absolute paths, so that ccache could not serve one clone with what another has compiled; here the paths are relative.
#
# Two sources of a target that use one name in their unnamed namespaces do not compile so: one of them deserves a better
# name. Where that cannot be helped, the source has the property SKIP_UNITY_BUILD_INCLUSION.

# A name in an included file counts as a header's, a name of one source may shadow one of another, and g++ 12 loses track of
# std::variant where it inlines much. Builds of single sources warn of all that.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage> -Wno-shadow
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)

# Replaces the sources of `target` by files that include them.
function(nfsrdma_unite_target target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(home ${target} SOURCE_DIR)
  get_target_property(binaries ${target} BINARY_DIR)
  set(folder ${binaries}/CMakeFiles/${target}.unity)
  set(kept)
  set(united)
  foreach(source ${sources})
    get_filename_component(path ${source} ABSOLUTE BASE_DIR ${home})
    get_source_file_property(skipped ${path} TARGET_DIRECTORY ${target} SKIP_UNITY_BUILD_INCLUSION)
    if(source MATCHES "^[^$]*[.]cpp$" AND NOT skipped)
      file(RELATIVE_PATH path ${folder} ${path})
      list(APPEND united ${path})
    else()
      list(APPEND kept ${source})
    endif()
  endforeach()
  list(LENGTH united count)
  if(count LESS 2)
    return()
  endif()
  math(EXPR last "(${count} - 1) / ${NFSRDMA_UNITY_BATCH}")
  foreach(batch RANGE ${last})
    math(EXPR first "${batch} * ${NFSRDMA_UNITY_BATCH}")
    list(SUBLIST united ${first} ${NFSRDMA_UNITY_BATCH} parts)
    list(TRANSFORM parts REPLACE "(.+)" "#include \"\\1\"")
    list(JOIN parts "\n" text)
    # Written only where it changes, so that nothing is compiled in vain.
    file(CONFIGURE OUTPUT ${folder}/unity_${batch}.cxx CONTENT "${text}\n" @ONLY)
    list(APPEND kept ${folder}/unity_${batch}.cxx)
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${kept}")
endfunction()

# All targets of `folder` and of those below it.
function(nfsrdma_unite folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "_LIBRARY$|^EXECUTABLE$" AND NOT type STREQUAL INTERFACE_LIBRARY)
      nfsrdma_unite_target(${target})
    endif()
  endforeach()
  get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(one ${below})
    nfsrdma_unite(${one})
  endforeach()
endfunction()
