/* One more copy of a function for processors with wider registers, chosen when the library is loaded. */

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif
