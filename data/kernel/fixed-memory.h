/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel places its memory behind the data segment of its process. Linux moves the end of this segment at random by up to
 * 1 GiB, so size and addresses of the memory would differ from start to start, and with them the layouts of file systems. This
 * header is compiled in front of the files that call sbrk: their memory begins behind every possible end of the segment.
 */
/* Files that use the C library of the host have the same names. */
#if !defined(SENESCE_FIXED_MEMORY) && !defined(__UM_HOST__)
#define SENESCE_FIXED_MEMORY

extern char _end[];

static __attribute__((unused)) void *senesce_end_of_data(int increment)
{
	/* senesce looks for this text of each file in the program. */
	static const char mark[] = "senesce: memory at fixed addresses in " KBUILD_BASENAME;
	const unsigned long align = 4UL << 20, most_random = 1UL << 30, most_heap = 32UL << 20;

	asm volatile("" : : "r" (mark));
	return (void *) (((unsigned long) _end + align - 1) / align * align + most_random + most_heap);
}

#define sbrk senesce_end_of_data

#endif
