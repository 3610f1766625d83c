/* Environment and, with threads, working directory of the process: shared between PHP, the core and the C library. */
#ifndef FERMATA_PROCESS_H
#define FERMATA_PROCESS_H

/* Pointer to the program's `environ`, which may be a different variable than this library's `environ`. */
extern char ***fermata_environ;

void fermata_process_init(void);
/* Called when PHP has registered its functions. */
void fermata_process_wrap(void);
/* Called before the core reads the environment. */
void fermata_process_share_environment(void);

#endif
