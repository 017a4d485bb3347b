"""The learned restaurant: pairs of items are scored, items are seated one after another by their mean score.

The paper weighs joining a cluster by its size times how well its mean explains the item, F(r_n | p_k, t_d). Here the
explanation is learned: the mean, over the cluster's members, of a score of two items under a reference type d,

    P(c_n = k, d_n = d | earlier items)  is proportional to  share_d * exp(bias_d + growth_d log n_k + mean score_d)
    P(c_n = new, d_n = d | earlier items) is proportional to share_d * exp(fresh_d log(1 + earlier candidates)).

With all scores 0, bias 0, growth 1 and fresh 0 this is the Chinese restaurant process with concentration 1.
"""
