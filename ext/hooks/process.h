/* Environment and, with threads, working directory of the process: shared between PHP, the core and the C library. */
#ifndef FERMATA_PROCESS_H
#define FERMATA_PROCESS_H

/* Location of PHP's environment variables: the program's `environ`, which may differ from this library's. */
extern char ***fermata_environ;

void fermata_process_init(void);
/* Called once PHP has registered its functions. */
void fermata_process_wrap(void);
/* Called before the core reads the environment. */
void fermata_process_share_environment(void);

#endif
